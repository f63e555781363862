"""The store, and what a launch needs of it, never loads a solver, Triton or PyTorch."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT

LATE = ("__init__", "deadline")  # what is imported when a service is asked
HEAVY = ("z3", "pyscipopt", "triton", "torch", "xdsl", "numpy", "rich")


def test_nothing_heavy_is_imported_by_any_module_of_the_store() -> None:
    modules = sorted(path.stem for path in (ROOT / "twill" / "store").glob("*.py"))
    imports = "\n".join(f"import twill.store.{name}" for name in modules if name not in LATE)
    code = f"{imports}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_nothing_heavy_is_needed_to_read_and_check_an_entry(tmp_path: object) -> None:
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({HEAVY!r}))\n"  # an import of any of them raises ImportError
        "from twill.store.location import open_store\n"
        f"store = open_store({str(tmp_path)!r} + '/s.sqlite3')\n"
        "assert store.get('0' * 64) is None\n"
        "from twill.store.validation import described\n"
        "from twill.machine.file import load_machine\n"
        "assert described('h100', load_machine('h100').digest()) is not None\n"
        "store.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
