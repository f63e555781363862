"""The grammar of the command line (docs/commands.md), and which function runs each command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twill.cli import (
    calibrate,
    check_and_show,
    compare,
    coverage,
    emit,
    machines,
    record,
    run_and_bench,
    run_script,
    solve,
    tune_again,
)
from twill.cli import ci as continuously
from twill.cli.service_arguments import add_serve, add_service_jobs, add_stored, add_work
from twill.cli.shared_arguments import (
    BUDGET,
    answers,
    emission,
    kernel,
    options,
    outputs,
    rewriting,
    store_place,
    strict,
    trial,
)
from twill.cli.subcommands import EXIT_CODES, new
from twill.cli.values import natural, positive, seconds

if TYPE_CHECKING:
    from twill.cli.subcommands import Commands

DESCRIPTION = "Optimal software pipelines and warp specialization for unmodified Triton kernels."
STRATEGIES = ("joint", "paper", "heuristic", "none")
FORMATS = ("text", "json", "dot", "graphml")  # as twill.graph.networks has them
POLICIES = ("lookup", "solve", "require", "off")  # as twill.runtime.policy has them


def parser() -> argparse.ArgumentParser:
    """The parser of everything; each command sets `command`, the function that runs it."""
    top = argparse.ArgumentParser(prog="twill", description=DESCRIPTION, epilog=EXIT_CODES, allow_abbrev=False)
    top.add_argument("--version", action=Version, nargs=0, help="the installed version")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_solve(commands)
    add_compare(commands)
    add_extract(commands)
    add_explain(commands)
    add_emit(commands)
    add_run(commands)
    add_record(commands)
    add_coverage(commands)
    add_bench(commands)
    add_tune(commands)
    add_check(commands)
    add_show(commands)
    add_machine_files(commands)
    add_calibrate(commands)
    add_stored(commands)
    add_service_jobs(commands)
    add_continuous(commands)
    add_serve(commands)
    add_work(commands)
    return top


class Version(argparse.Action):
    """Prints the installed version; looking it up is slow enough to be done only when asked."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Print and leave."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"twill {version('twill-gpu')}")
        except PackageNotFoundError:
            print("twill, from a checkout that is not installed")
        parser.exit()


def add_solve(commands: Commands) -> None:
    """`twill solve`."""
    one = new(commands, "solve", "find the provably best schedule of a kernel for a machine")
    kernel(one)
    rewriting(one)
    options(one)
    one.add_argument("--strategy", choices=STRATEGIES, default="joint", help="who schedules (default: the joint solve)")
    one.add_argument("--json", action="store_true", help="the schedule document on standard output, nothing else")
    either = one.add_mutually_exclusive_group()
    either.add_argument("--top", metavar="K", type=positive, help="K optimal schedules that differ, not from the store")
    either.add_argument("--certify", metavar="DIR", help="prove what it claims: schedule, certificate, proofs into DIR")
    outputs(one)
    one.add_argument("--out", metavar="DIR", help="write schedule.json, .html, .trace.json and .txt into DIR")
    answers(one)
    one.set_defaults(command=solve.solve)


def add_compare(commands: Commands) -> None:
    """`twill compare`."""
    one = new(commands, "compare", "the joint solve beside the strategies of others, on one kernel")
    kernel(one)
    rewriting(one)
    one.add_argument("--machine", metavar="NAME_OR_FILE", default="h100", help="the machine (default: h100)")
    one.add_argument("--normalize", metavar="U", type=positive, help="normalize the costs of every strategy")
    one.add_argument(
        "--budget", metavar="S", type=seconds, default=60.0, help="seconds for each strategy (default: 60)"
    )
    one.add_argument("--seed", metavar="N", type=natural, default=0, help="seed of the solver (default 0)")
    one.add_argument("--blocks", metavar="N", type=positive, help="only cooperations of N row blocks")
    one.add_argument("--json", action="store_true", help="the comparison as a document, nothing else")
    one.set_defaults(
        command=compare.compare, strategy="joint", pin=(), ii=None, resource_limit=0, solver="z3", no_margin=False,
        whole_exponentials=True, cluster=1,
    )  # fmt: skip


def add_extract(commands: Commands) -> None:
    """`twill extract`."""
    one = new(commands, "extract", "the dependence graph of a kernel")
    kernel(one)
    rewriting(one)
    one.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="text (the default), or for other programs")
    one.add_argument("--json", dest="format", action="store_const", const="json", help="--format json: the document")
    one.set_defaults(command=solve.extract)


def add_explain(commands: Commands) -> None:
    """`twill explain`."""
    one = new(commands, "explain", "why no better schedule, or none with the given pins, exists")
    kernel(one)
    rewriting(one)
    options(one)
    one.add_argument("--copies", metavar="N", type=positive, help="ask for at most N iterations in flight")
    one.add_argument("--groups", metavar="N", type=positive, help="ask for at most N warp groups")
    one.set_defaults(command=solve.explain, strategy="joint")


def add_emit(commands: Commands) -> None:
    """`twill emit`."""
    one = new(commands, "emit", "the kernel in CUDA, compiled, as its schedule says")
    kernel(one)
    rewriting(one)
    options(one)
    one.add_argument("--out", metavar="DIR", help="write source, cubin, manifest, schedule and launcher into DIR")
    text = "what to write: CUDA with its cubin (default), or a module of Gluon, which runs where Triton does"
    one.add_argument("--as", dest="language", choices=("cuda", "gluon"), default="cuda", help=text)
    one.add_argument("--ir", action="store_true", help="print the warp program")
    one.add_argument("--execute", action="store_true", help="run the PTX on the CPU first, and refuse what is wrong")
    text = "print the tile program or the warp program behind a pass; nothing is compiled"
    one.add_argument("--dump-after", metavar="PASS", help=text)
    one.add_argument("--why", action="store_true", help="print what was chosen among, and why: cooperations, lowerings")
    one.add_argument(
        "--passes",
        action=emit.ListPasses,
        nargs=0,
        help="list the passes over tile programs and warp programs, in order, and end",
    )
    one.set_defaults(cluster=None)  # chosen
    given = one.add_mutually_exclusive_group()
    given.add_argument("--schedule", metavar="FILE", help="a schedule document instead of a solve")
    text = "a warp program as --ir prints it: check it and print its CUDA"
    given.add_argument("--from-ir", metavar="FILE", help=text)
    given.add_argument("--tuned", action="store_true", help="the tiles and the schedule that `twill tune` kept")
    one.add_argument("--strategy", choices=STRATEGIES, default="joint", help="who schedules (default: the joint solve)")
    emission(one)
    answers(one)
    one.set_defaults(command=emit.emit)


def add_run(commands: Commands) -> None:
    """`twill run`."""
    one = new(commands, "run", "a script with its Triton kernels under twill.jit; of a kernel with a sidecar, a trial")
    trial(one)
    one.add_argument("--launches", metavar="N", type=positive, default=100, help="that must be bit-identical (100)")
    one.add_argument("--seconds", metavar="S", type=seconds, default=60.0, help="for float32 references (default: 60)")
    one.set_defaults(command=run_and_bench.run)


def script() -> argparse.ArgumentParser:
    """The parser of `twill run SCRIPT`; what stands behind the script is the script's."""
    one = argparse.ArgumentParser(
        prog="twill run", description="run a script, its Triton kernels under twill.jit", allow_abbrev=False
    )
    one.add_argument("--script", dest="forced", action="store_true", help="a script, whatever stands beside it")
    one.add_argument("--policy", choices=POLICIES, help="what may be done for a kernel (default: TWILL_JIT, or lookup)")
    one.add_argument("--launch-budget", metavar="S", type=seconds, help="that a launch may wait, once (default: 0.05)")
    one.add_argument("--machine", metavar="NAME_OR_FILE", help="the machine (default: that of the GPU that is here)")
    store_place(one)
    one.add_argument("--server", metavar="URL", help="a service to look up and solve at (default: TWILL_SERVER)")
    one.add_argument("script", metavar="SCRIPT.py")
    one.add_argument("words", metavar="ARG", nargs=argparse.REMAINDER, help="arguments of the script")
    one.set_defaults(command=run_script.run)
    return one


def add_record(commands: Commands) -> None:
    """`twill record`."""
    one = new(commands, "record", "run a script and write sidecars from the launches that it makes (docs/sidecars.md)")
    text = (
        "where launches go: the GPU, or nowhere, with tensors on the CPU or without memory (default: as there is one)"
    )
    one.add_argument("--on", choices=("gpu", "cpu", "meta"), help=text)
    one.add_argument("--out", metavar="DIR", help="write all sidecars into DIR, to be named by TWILL_SIDECARS")
    one.add_argument("--force", action="store_true", help="replace sidecars that are there, instead of adding to them")
    one.add_argument("script", metavar="SCRIPT.py")
    one.add_argument("words", metavar="ARG", nargs=argparse.REMAINDER, help="arguments of the script")
    one.set_defaults(command=record.record)


def add_coverage(commands: Commands) -> None:
    """`twill coverage`."""
    one = new(commands, "coverage", "what would become of every kernel of a path or package (docs/coverage.md)")
    one.add_argument("name", metavar="PATH|PACKAGE", help="a file, a folder, or an importable package")
    one.add_argument("--machine", metavar="NAME_OR_FILE", default="h100", help="the machine (default: h100)")
    one.add_argument("--emit", metavar="S", type=seconds, help="also solve, for S seconds each, and emit")
    one.add_argument("--limit", metavar="S", type=seconds, default=60.0, help="for all before a solve (default: 60)")
    one.add_argument("--sample", metavar="N", type=positive, help="only N kernels, drawn at random")
    one.add_argument("--seed", metavar="N", type=natural, default=0, help="of the drawing (default 0)")
    one.add_argument("--only", metavar="PATTERN", default="", help="only kernels in whose names this is found")
    one.add_argument("--jobs", metavar="N", type=positive, help="processes (default: one for each core)")
    one.add_argument("--results", metavar="FILE", help="keep every outcome there, and go on from what it has")
    one.add_argument(
        "--keep", metavar="DIR", help="with --emit: leave every emitted kernel there, in a folder of its own"
    )
    one.add_argument("--execute", action="store_true", help="with --emit: also execute what is emitted, on the CPU")
    one.add_argument("--json", action="store_true", help="every outcome as a document, nothing else")
    one.set_defaults(command=coverage.coverage)


def add_bench(commands: Commands) -> None:
    """`twill bench`."""
    one = new(commands, "bench", "the emitted kernel's time on this GPU beside the Triton kernel's")
    trial(one)
    one.add_argument("--json", action="store_true", help="the times as a document, nothing else")
    one.set_defaults(command=run_and_bench.bench)


def add_tune(commands: Commands) -> None:
    """`twill tune`."""
    one = new(commands, "tune", "the fastest tiles, row blocks and schedule: all predicted, the best few measured here")
    kernel(one)
    strict(one)
    options(one, machine="h200")
    one.add_argument(
        "--tile", metavar="NAME=V,...", action="append", default=[], help="values of a constexpr, over the sidecar's"
    )
    one.add_argument("--size", metavar="M=N,...", action="append", default=[], help="sizes other than the sidecar's")
    one.add_argument("--top", metavar="K", type=positive, default=1, help="schedules of equal I for each choice (1)")
    one.add_argument("--measure", metavar="N", type=natural, default=4, help="emit and measure the best N (4)")
    one.add_argument("--out", metavar="DIR", help="keep the emitted candidates and tuning.json in DIR")
    one.add_argument("--from", dest="earlier", metavar="DIR", help="solve nothing, measure what --out DIR kept")
    one.add_argument("--json", action="store_true", help="the tuning as a document, nothing else")
    answers(one)
    one.set_defaults(command=tune_again.tune, strategy="joint")


def add_check(commands: Commands) -> None:
    """`twill check`."""
    one = new(commands, "check", "hold a schedule document to every rule of docs/model.md")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("schedule", metavar="SCHEDULE.json", nargs="?")
    what.add_argument(
        "--gluon", metavar="FILE", help="an emitted module of Gluon: what an edit changed of its schedule"
    )
    one.add_argument("--machine", metavar="NAME_OR_FILE", help="the machine it was solved for, if not a described one")
    one.add_argument("--certificate", action="store_true", help="check the certificate.json and the proofs beside it")
    one.set_defaults(command=check_and_show.check)


def add_show(commands: Commands) -> None:
    """`twill show`."""
    one = new(commands, "show", "draw a schedule document")
    one.add_argument("schedule", metavar="SCHEDULE.json")
    outputs(one)
    one.set_defaults(command=check_and_show.show)


def add_machine_files(commands: Commands) -> None:
    """`twill machines list | show NAME | check FILE`."""
    group = new(commands, "machines", "the described machines")
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    new(actions, "list", "names of the described machines").set_defaults(command=machines.list_all)
    one = new(actions, "show", "every figure of a machine, with its source")
    one.add_argument("machine", metavar="NAME_OR_FILE")
    one.set_defaults(command=machines.show)
    one = new(actions, "check", "read and validate a machine file")
    one.add_argument("file", metavar="FILE")
    one.set_defaults(command=machines.check)


def add_calibrate(commands: Commands) -> None:
    """`twill calibrate`."""
    one = new(commands, "calibrate", "measure the GPU that is here and write its machine file (docs/calibration.md)")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="FILE", help="the machine file to write; its name is the machine's")
    what.add_argument("--list", action="store_true", help="the microbenchmarks, and nothing else")
    one.add_argument("--machine", metavar="NAME_OR_FILE", default="h200", help="what is not measured (default: h200)")
    one.add_argument("--raw", metavar="FILE", help="keep the measured cycles there (default: OUT as .measured.json)")
    one.add_argument("--only", metavar="NAME", action="append", default=[], help="only these, anew: a name, its "
                     "beginning, or a pattern; repeatable")  # fmt: skip
    one.add_argument("--again", action="store_true", help="measure everything anew")
    one.add_argument("--fit", action="store_true", help="measure nothing: the figures that follow from --raw")
    one.add_argument("--repeats", metavar="N", type=positive, default=25, help="of each microbenchmark (default: 25)")
    one.add_argument("--spread", metavar="FACTOR", type=seconds, default=1.0, help="believe spreads FACTOR as wide")
    one.set_defaults(command=calibrate.calibrate)


def add_continuous(commands: Commands) -> None:
    """`twill ci`."""
    one = new(commands, "ci", "hold the schedules of all kernels of a repository against its lock file")
    one.add_argument(
        "paths", metavar="PATH", nargs="+", help="directories of kernel files with sidecars, or such files"
    )
    one.add_argument("--lock", metavar="FILE", default="schedules.lock", help="the lock file (default: schedules.lock)")
    what = one.add_mutually_exclusive_group()
    what.add_argument("--update", action="store_true", help="write the lock file as it is now, worse or not")
    what.add_argument("--frozen", action="store_true", help="fail on what the lock file lacks; write nothing")
    one.add_argument("--machine", metavar="NAME_OR_FILE", action="append", help="a machine; repeatable (default: h100)")
    one.add_argument("--junit", metavar="FILE", help="write the result as JUnit XML")
    one.add_argument("--annotations", action="store_true", help="print GitHub annotations (default: in its workflows)")
    one.add_argument(
        "--budget", metavar="S", type=seconds, default=BUDGET, help=f"seconds for each (default {BUDGET:g})"
    )
    one.add_argument("--seed", metavar="N", type=natural, default=0, help="seed of the solver (default 0)")
    answers(one)
    one.set_defaults(command=continuously.ci)
