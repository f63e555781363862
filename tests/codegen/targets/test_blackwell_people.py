"""The twenty faults that people made in kernels for sm_100a are found in ours, by the tools that see them."""

from __future__ import annotations

import pytest

from tests import people
from tests.conftest import ROOT
from tests.people import ATTENTION, FAULTS, NOTHING, Fault

pytestmark = pytest.mark.usefixtures("at_root")


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_that_people_made_is_found_by_the_tools_that_see_it(fault: Fault) -> None:
    found = people.said(fault)
    assert found == fault.found
    assert any(one not in ("", NOTHING) for one in found)


@pytest.mark.parametrize("kernel", {fault.kernel.name: fault.kernel for fault in FAULTS}.values(), ids=lambda k: k.name)
def test_nothing_is_found_in_a_kernel_as_it_is(kernel: people.Kernel) -> None:
    as_it_is = Fault(0, "none", kernel, ("", NOTHING, NOTHING), text=str)
    assert people.said(as_it_is) == as_it_is.found


def test_every_number_of_the_list_has_a_fault_and_stands_in_the_documents() -> None:
    assert sorted({fault.number for fault in FAULTS}) == [*range(1, 21)]
    written = (ROOT / "docs" / "seeded-faults.md").read_text(encoding="utf-8")
    assert all(people.row(fault) in written for fault in FAULTS)
    assert people.across("acc 2", "qk")(ATTENTION.compiled().program) != ATTENTION.compiled().program
