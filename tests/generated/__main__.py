"""`python -m tests.generated`: see `tests.generated.nightly`."""

import sys

from tests.generated.nightly import main

if __name__ == "__main__":
    sys.exit(main())
