"""The twenty faults that people made in kernels for sm_100a, in kernels that Twill emits: which tool finds what.

    python -m tests.people [--sentry SECONDS]    # the table of docs/seeded-faults.md; SentryWard is asked if told so

A fault is one of a warp program, of the text that is printed, or of both. The abstract machine gets the warp program;
the executor of PTX, the check of the order of threads and SentryWard get the text, which is printed from the faulty
warp program where nothing else is said.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tests import blackwell, blackwell_attention, golden_schedules, narrow, sentry
from tests.blackwell import GEMM, MXFP8
from tests.blackwell_attention import FULL
from tests.blackwell_table import asked_narrow, question
from tests.golden_schedules import Example
from tests.run_cache import once
from twill import exc
from twill.codegen.emission import Extracted
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.shared import buffers_end, tensor_barriers
from twill.codegen.verify.abstract.inputs import LARGE, CheckedLaunch, launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.thread_orders import BarrierPlaces, misordered
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number
from twill.kernel.specialization import problem_of
from twill.ptx.parse import parse
from twill.schedule.document import Schedule
from twill.trial import execute

Program = ir.WarpProgram
OfProgram = Callable[[Program], Program]
OfText = Callable[[str], str]
NOTHING, REFUSED = "nothing", "not printed"


@dataclass(frozen=True)
class Kernel:
    """What faults are put into. sizes, ctas, answers: of the launch at which it is executed. asked: sizes at which
    SentryWard is asked; without them it is about the kernel with fewer columns (`tests.narrow`)."""

    name: str
    read: Callable[[], Extracted]
    schedule: Callable[[], Schedule]
    compiled: Callable[[], Emission]
    sizes: Mapping[str, int]
    ctas: int = 1
    answers: tuple[int, ...] = ()
    asked: Mapping[str, int] | None = None

    def launched(self, sizes: Mapping[str, int]) -> CheckedLaunch:
        """With random numbers."""
        problem = problem_of(self.read().specialization)
        assert problem is not None
        return launch(self.read().program, problem.case(dict(sizes)), scale=LARGE, data="normal")


@cache
def dynamic() -> Emission:
    """The GEMM whose CTAs take over places of others."""
    schedule, machine = blackwell.schedule(GEMM), blackwell.machine()
    extracted = golden_schedules.kernel(GEMM)
    made = lower(extracted.program, schedule, machine, order="dynamic")
    return once("b200-dynamic-gemm", lambda: build_kernel(made, extracted.specialization, schedule, machine))


def of_a_product(
    name: str, cluster: int, sizes: Mapping[str, int], asked: Mapping[str, int], example: Example = GEMM
) -> Kernel:
    """One of `tests.blackwell`."""
    return Kernel(
        name, lambda: golden_schedules.kernel(example), lambda: blackwell.schedule(example, cluster),
        lambda: blackwell.compiled(example, cluster), sizes, cluster, asked=asked,
    )  # fmt: skip


PRODUCT = of_a_product("GEMM", 1, {"M": 272, "N": 80, "K": 528}, {"M": 128, "N": 128, "K": 832})
PAIR = of_a_product("GEMM by a pair", 2, {"M": 272, "N": 144, "K": 136}, {"M": 256, "N": 128, "K": 1088})
SCALES = of_a_product("GEMM, mxfp8", 1, {"M": 64, "N": 64, "K": 144}, {"M": 128, "N": 128, "K": 1408}, MXFP8)
ATTENTION = Kernel(
    "attention", lambda: blackwell_attention.kernel(FULL), lambda: blackwell_attention.schedule(FULL),
    lambda: blackwell_attention.compiled(FULL), {"Z": 1, "H": 1, "N_CTX": 256},
)  # fmt: skip
DYNAMIC = Kernel(
    "GEMM, dynamic order", PRODUCT.read, PRODUCT.schedule, dynamic, {"M": 144, "N": 144, "K": 136}, 2, (1, -1),
    {"M": 128, "N": 128, "K": 832},
)  # fmt: skip


# ---------------------------------------------------------------- how faults are made


def other(pattern: str, by: str | Callable[[re.Match[str]], str]) -> OfText:
    """Each place of a pattern."""

    def change(text: str) -> str:
        made, count = re.subn(pattern, by, text)
        assert count, pattern
        return made

    return change


def first(pattern: str, by: str) -> OfText:
    """Its first place."""

    def change(text: str) -> str:
        made, count = re.subn(pattern, by, text, count=1)
        assert count, pattern
        return made

    return change


def number(pattern: str, edit: Callable[[int], int]) -> OfText:
    """Each number of that form."""
    return other(pattern, lambda found: str(edit(int(found[0]))))


def each(role: str, edit: Callable[[ir.Stmt], ir.Stmt | None]) -> OfProgram:
    """Every statement of a group."""

    def block(stmts: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        made = (edit(ir.with_blocks(stmt, block)) for stmt in stmts)
        return tuple(stmt for stmt in made if stmt is not None)

    def change(program: Program) -> Program:
        assert role in {group.role for group in program.groups}
        groups = (replace(g, body=block(g.body), next=block(g.next)) if g.role == role else g for g in program.groups)
        return replace(program, groups=tuple(groups))

    return change


def of_kind(kind: type[Any], edit: Callable[[Any], ir.Stmt | None]) -> Callable[[ir.Stmt], ir.Stmt | None]:
    """What becomes of statements of a kind."""
    return lambda stmt: edit(stmt) if isinstance(stmt, kind) else stmt


def at(role: str, kind: type[Any], cursor: str) -> OfProgram:
    """Statements of a kind at a cursor of that name are left out."""

    def change(program: Program) -> Program:
        (group,) = (group for group in program.groups if group.role == role)
        numbers = {c.id for c in group.cursors if c.name == cursor}
        assert numbers
        return each(role, lambda stmt: None if isinstance(stmt, kind) and stmt.cursor in numbers else stmt)(program)

    return change


def across(name: str, under: str) -> OfProgram:
    """A buffer in tensor memory begins three quarters of a slot of another one further."""

    def change(program: Program) -> Program:
        (below,) = (b for b in program.buffers if b.tensor and b.name == under)
        moved = below.offset + 3 * below.stride // 4
        made = (replace(b, offset=moved) if b.tensor and b.name == name else b for b in program.buffers)
        return replace(program, buffers=tuple(made))

    return change


def meets(**changes: Any) -> OfProgram:
    """Whether CTAs of a cluster meet."""

    def change(program: Program) -> Program:
        assert program.cluster is not None
        return replace(program, cluster=replace(program.cluster, **changes))

    return change


# ---------------------------------------------------------------- the faults


@dataclass(frozen=True)
class Fault:
    """number: of the list. found: the first rule of the abstract machine, of the executor, of the check of the order of
    threads; `values` if numbers differ, NOTHING, REFUSED; "" where a tool has nothing to look at. program, text: what
    is changed."""

    number: int
    name: str
    kernel: Kernel
    found: tuple[str, str, str]
    program: OfProgram | None = None
    text: OfText | None = None

    def __str__(self) -> str:
        return f"{self.number} {self.name}"


DESCRIPTOR, PAIRS = r"\b46117566\d{11}\b", r"\b270599312\b"
STEP = r"(add\.s64 \s*%rd\d+, %rd\d+), 2;"
MEETING = r"barrier\.cluster\.arrive\.release;[\s\S]*?barrier\.cluster\.wait\.acquire;"
AFTER, BEFORE = r"tcgen05\.fence::after_thread_sync;", r"tcgen05\.fence::before_thread_sync;"
LOADED, STORED = r"tcgen05\.wait::ld\.sync\.aligned;", r"tcgen05\.wait::st\.sync\.aligned;"

FAULTS = (
    Fault(1, "stride of a matrix descriptor", PRODUCT, ("", "values", NOTHING),
          text=number(DESCRIPTOR, lambda bits: bits - (32 << 32))),
    Fault(1, "leading offset", PRODUCT, ("", "values", NOTHING),
          text=number(r"\b4611756662083026944\b", lambda bits: bits & ~(0x3FFF << 16))),
    Fault(1, "version", PRODUCT, ("", "form", NOTHING), text=number(DESCRIPTOR, lambda bits: bits ^ 1 << 46)),
    Fault(1, "swizzle", PRODUCT, ("", "order", NOTHING), text=number(DESCRIPTOR, lambda bits: bits ^ 6 << 61)),
    Fault(2, "rows of one CTA, not of the pair", PAIR, ("", "form", NOTHING),
          text=number(PAIRS, lambda bits: bits - (8 << 24))),
    Fault(3, "B along the other way", PRODUCT, ("", "order", NOTHING),
          text=number(r"\b136381584\b", lambda bits: bits ^ 1 << 16)),
    Fault(4, "a step along K off the atom", PRODUCT, ("", "values", NOTHING), text=other(STEP, r"\1, 1;")),
    Fault(4, "a step along K that carries into the next field", PRODUCT, ("", "form", NOTHING),
          text=other(STEP, r"\1, 16386;")),
    Fault(5, "the first step adds to what was there", PRODUCT, ("values", "values", NOTHING),
          each("mma", of_kind(ir.TensorMultiply, lambda stmt: replace(stmt, accumulate=Number(1, "i1"))))),
    Fault(6, "bytes of one CTA", PAIR, ("bytes", "leftover", NOTHING),
          each("load", of_kind(ir.Expect, lambda stmt: replace(stmt, bytes=stmt.bytes // 2)))),
    Fault(7, "a commit to one CTA", PAIR, ("", "deadlock", NOTHING),
          text=other(r"(mov\.b16 \s*%rs\d+), 3;", r"\1, 1;")),
    Fault(8, "no `wait::ld`", PRODUCT, ("", "tcgen05-registers", "tcgen05-wait"), text=other(LOADED, "")),
    Fault(8, "no `wait::ld`", ATTENTION, ("", "tcgen05-registers", "tcgen05-wait"), text=other(LOADED, "")),
    Fault(9, "no `wait::st`", ATTENTION, ("", "tcgen05-wait", "tcgen05-wait"), text=other(STORED, "")),
    Fault(10, "no fences behind waits", PRODUCT, ("", "tcgen05-fence", "tcgen05-fence"), text=other(AFTER, "")),
    Fault(10, "no fences in front of arrivals", PRODUCT, ("", "tcgen05-fence", "tcgen05-fence"),
          text=other(BEFORE, "")),
    Fault(11, "no proxy fence", PRODUCT, ("proxy-fence", "proxy-fence", NOTHING),
          each("epilogue", of_kind(ir.ProxyFence, lambda stmt: None))),
    Fault(12, "readers that are not the four quarters", PRODUCT, ("counts", REFUSED, ""), lambda program: replace(
        program, groups=tuple(replace(g, threads=96) if g.role == "epilogue" else g for g in program.groups))),
    Fault(12, "the other half of a quarter", PRODUCT, ("", "form", NOTHING), text=other(r"\b1048576\b", "3145728")),
    Fault(13, "tensor memory is given back at the start", PRODUCT, ("", "tensor-memory", NOTHING), text=other(
        r"(tcgen05\.relinquish_alloc_permit[^;]*;)",
        r"\1 { .reg .b32 z; mov.b32 z, 0; tcgen05.dealloc.cta_group::1.sync.aligned.b32 z, 512; }")),
    Fault(13, "it is never given back", PRODUCT, ("", "tensor-memory", NOTHING),
          text=other(r"tcgen05\.dealloc[^;]*;", "")),
    Fault(14, "it is allocated before the other CTA is there", PAIR, ("cluster", "tensor-memory", NOTHING),
          meets(meets_first=False),
          first(MEETING, "")),
    Fault(15, "a CTA ends before the other", PAIR, ("cluster", "exit", NOTHING), meets(meets_last=False)),
    Fault(16, "a role that does not wait for the answer", DYNAMIC, ("walk", "order", NOTHING),
          at("epilogue", ir.Get, "instance_get")),
    Fault(16, "a role that does not take it", DYNAMIC, ("leftover", "deadlock", NOTHING),
          at("epilogue", ir.Consumed, "instance_get")),
    Fault(16, "an answer before all have read the last one", DYNAMIC, ("order", "order", NOTHING),
          at("mma", ir.Acquire, "instance_put")),
    Fault(17, "the parity of a slot stays", PRODUCT, ("phase", "deadlock", NOTHING), at("mma", ir.Advance, "a_get"),
          text=other(r"xor\.b32 (\s*%r\d+), (%r\d+), 1;", r"mov.b32 \1, \2;")),
    Fault(18, "the byte of a scale", SCALES, ("", "values", NOTHING),
          text=number(r"\b681574416\b", lambda bits: bits ^ 1 << 29)),
    Fault(19, "registers beyond those of the launch", ATTENTION, ("registers", "deadlock", NOTHING),
          lambda program: replace(
        program, groups=tuple(replace(g, registers=248) for g in program.groups))),
    Fault(20, "P across two slots of S", ATTENTION, ("shared", "order", NOTHING), across("acc 2", "qk")),
)  # fmt: skip


# ---------------------------------------------------------------- what tools say


def by_machine(fault: Fault) -> str:
    """The abstract machine."""
    if fault.program is None:
        return ""
    right = fault.kernel.compiled().program
    wrong = fault.program(right)
    assert wrong != right
    found = verify(wrong, problem_of(fault.kernel.read().specialization), enough=1)
    return found[0].rule if found else NOTHING


def texts(fault: Fault) -> tuple[Emission, str]:
    """An emission and the faulty text. Errors: what refuses to make it."""
    right = fault.kernel.compiled()
    if fault.text is not None:
        return right, fault.text(right.build.ptx)
    assert fault.program is not None
    kernel = fault.kernel
    wrong = fault.program(right.program)
    made = build_kernel(wrong, kernel.read().specialization, kernel.schedule(), blackwell.machine(), accept_slow=True)
    return made, made.build.ptx


def by_executor(fault: Fault, made: Emission, text: str) -> str:
    """The executor of PTX."""
    kernel = fault.kernel
    right = kernel.compiled().program
    found = execute.verified(
        text, made.manifest, right, kernel.launched(kernel.sizes), kernel.ctas, answers=kernel.answers
    )
    return found.findings[0].rule if found.findings else "values" if found.differences else NOTHING


def by_orders(made: Emission, text: str) -> str:
    """The check of every emission's PTX."""
    places = BarrierPlaces(tensor_barriers(made.program), buffers_end(made.program))
    found = misordered(parse(text).function(made.printed.function), places)
    return next(iter(found)).rule if found else NOTHING


def by_sentry(fault: Fault, seconds: int) -> str:
    """SentryWard, of races, waits and lifetimes."""
    kernel = fault.kernel
    if kernel.asked is None:
        given = narrow.attention(FULL)
        if fault.program is not None:
            given = replace(given, program=fault.program(given.program))
        (text, entry, one), _ = asked_narrow(given)
        text = fault.text(text) if fault.text is not None else text
    else:
        made, text = texts(fault)
        _, entry, one = question(made, kernel.launched(kernel.asked), kernel.ctas)
        text = sentry.taken(text)
    answer = sentry.checked(text, entry, one, seconds)
    codes = sorted({str(each.get("code")) for each in answer.get("diagnostics", ())})
    result = str(answer["result"])
    return f"{result} ({', '.join(codes)})" if result in ("unsupported", "timeout") else result


def said(fault: Fault) -> tuple[str, str, str]:
    """By the abstract machine, the executor, the order of threads."""
    machine = by_machine(fault)
    try:
        made, text = texts(fault)
    except exc.TwillError:
        return machine, REFUSED, ""
    return machine, by_executor(fault, made, text), by_orders(made, text)


def row(fault: Fault) -> str:
    """Its row of the table, without SentryWard."""
    given = [one if one in ("", NOTHING, REFUSED) else f"`{one}`" for one in fault.found]
    return f"| {fault.number} | {fault.name} | {fault.kernel.name} | {' | '.join(given)} |"


def rows(seconds: int) -> Iterator[str]:
    """Markdown."""
    yield "| | fault | kernel | abstract machine | executor of PTX | order of threads | SentryWard |"
    yield "| ---: | --- | --- | --- | --- | --- | --- |"
    for fault in FAULTS:
        asked = seconds and REFUSED not in fault.found
        yield f"{row(fault)} {by_sentry(fault, seconds) if asked else ''} |"


def main(words: list[str]) -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m tests.people", description=__doc__)
    parser.add_argument("--sentry", type=int, default=0)
    for row in rows(parser.parse_args(words).sentry):
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
