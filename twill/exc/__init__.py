"""Every mistake a user can make, one class each: where, what, and what to write instead.

`TwillError` carries the exit code of the command line. Messages name the file and line first,
as compilers do: `kernel.py:97: the address of tl.load is not affine in ...`.
"""

from __future__ import annotations

from twill.exc.base import *
from twill.exc.commands import *
from twill.exc.emitting import *
from twill.exc.kernels import *
from twill.exc.machines import *
from twill.exc.running import *
from twill.exc.sharing import *
from twill.exc.solving import *
