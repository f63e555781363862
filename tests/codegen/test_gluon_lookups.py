"""Numbers that are looked up in memory have no form in Gluon yet: that is said, and no internal error."""

from __future__ import annotations

import pytest

from twill import exc
from twill.codegen.print.gluon.scalars import GluonScalarNames, print_scalar
from twill.codegen.warp.expression import Lookup, ProgramId


def test_a_number_that_is_looked_up_is_refused() -> None:
    names = GluonScalarNames.__new__(GluonScalarNames)
    with pytest.raises(exc.NotInGluon, match="looked up in memory"):
        print_scalar(Lookup("Q_SCALE", ProgramId(1), "f32", None, 0.0), names)
