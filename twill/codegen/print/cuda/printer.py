"""A warp program as the text of one CUDA kernel. The printer only prints: every decision is in the program.

One kernel: setup, then a branch for each warp group (one for several that do the same, `twill.codegen.print.sections`)
with its role, in which a persistent loop walks the instances of the launch grid. `twill.codegen.warp.program` says what
the statements mean, `twill.codegen.warp.parameters` what a launch passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from twill.codegen.print.cuda.alone import alone
from twill.codegen.print.cuda.byte_operands import find_byte_operands
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import memory_type, scalar_type
from twill.codegen.print.cuda.index_fragments import find_index_fragments
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape
from twill.codegen.print.cuda.names import Names, identifier
from twill.codegen.print.cuda.places import lane_row
from twill.codegen.print.cuda.print_control import declare_reuse_counts
from twill.codegen.print.cuda.print_made_maps import copy_templates, declare_made_maps
from twill.codegen.print.cuda.print_synchronization import declared
from twill.codegen.print.cuda.print_tile_scheduler import ANSWER, ASKED, declare_seeks, loop_head, past
from twill.codegen.print.cuda.shared import (
    BARRIER_BYTES,
    SharedAddresses,
    answer_at,
    barriers_at,
    described,
    of_section,
    order_at,
    tensor_at,
)
from twill.codegen.print.cuda.statements import print_block
from twill.codegen.print.cuda.writer import TextWriter
from twill.codegen.print.kernel_lines import KernelLines
from twill.codegen.print.sections import Section, common_name, sections
from twill.codegen.targets.base import target_of
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Local, PerGroup
from twill.codegen.warp.from_memory import names_from_memory
from twill.codegen.warp.layout import text as layout_text
from twill.codegen.warp.parameters import PrintedParameter, nodes, parameters
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.machine.occupancy import register_pool

_WARP, _WARP_GROUP, _MOST_REGISTERS = 32, 128, 255  # the last: that an instruction can name


@dataclass(frozen=True)
class Printed:
    """The text and what its build and launch need. shapes, lines: for `twill.codegen.compile.nvrtc.compile_cubin`.

    function: the kernel's name. threads: of a CTA. shared: bytes of dynamic shared memory.
    """

    text: str
    shapes: tuple[MultiplyShape, ...]
    function: str
    threads: int
    shared: int
    lines: KernelLines


def print_cuda(program: ir.WarpProgram, machine: Machine | None = None) -> Printed:
    """The kernel of `program`. machine: the program's own, by name, unless given.

    Errors: UnsupportedInKernel for a statement that has no CUDA.
    """
    return _Kernel(program, machine or load_machine(program.machine)).printed()


class _Kernel:
    """One kernel while it is printed."""

    def __init__(self, program: ir.WarpProgram, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.out = TextWriter()
        self.names = Names()
        self.shapes: set[MultiplyShape] = set()
        self.threads = sum(group.threads for group in program.groups)
        self.function = f"twill_{identifier(program.program.kernel)}"
        self.parameters = parameters(program)
        self.arguments = {p.name: self.names.fresh(p.name) for p in self.parameters if p.kind in ("scalar", "pointer")}
        self.shared = SharedAddresses.of(program, self.names)
        self.sections = sections(program)
        self.locals: dict[str, str] = {}  # scalars of the whole CTA
        self.own: dict[tuple[int, ...], tuple[str, ...]] = {}  # lines at the start of a section

    def _bounds(self) -> str:
        """What the compiler is told of the launch. Of a kernel with MMAs it counts the threads of a CTA in whole warp
        groups where it derives their registers from launch bounds, so they are said where load groups are one warp."""
        threads, ctas, groups = self.threads, self.program.ctas, self.program.groups
        moved = any(group.registers for group in groups) or (ctas == 1 and len(groups) == 1)
        if not moved and any(isinstance(node, ir.Multiply) for node in nodes(groups)):
            return f"__maxnreg__({register_pool(threads * ctas, self.machine) // (threads * ctas)})"
        return f"__launch_bounds__({threads}, {ctas})"

    def printed(self) -> Printed:
        """All of it."""
        tile = self.program.program
        self.out.line(f"// {tile.kernel} {tile.spec}, for {self.program.machine}".replace("  ", " "))
        if unproven := target_of(self.machine).unproven:
            self.out.line(f"// {unproven}")
        self._constants()
        cluster = self.program.cluster
        shape = f" __cluster_dims__({cluster.ctas}, 1, 1)" if cluster is not None else ""
        head = f'extern "C" __global__ void{shape} {self._bounds()}\n{self.function}('
        with self.out.block(head + ",\n    ".join(map(self._parameter, self.parameters)) + ")"):
            self._setup()
            self._roles()
            if cluster is not None and cluster.meets_last:
                self.out.line()
                self.out.line("cluster_wait();  // for all threads: nobody touches a CTA that has ended")
            self._free_tensor_memory()
        return Printed(
            self.out.text(),
            tuple(sorted(self.shapes)),
            self.function,
            self.threads,
            self.program.shared,
            KernelLines(tile.file, dict(self.out.lines)),
        )

    # ------------------------------------------------------------ what all roles share
    def _constants(self) -> None:
        """Where everything is in shared memory, in bytes from its start."""
        for buffer, name in zip(self.program.buffers, self.shared.buffers, strict=True):
            self.out.line(f"constexpr u32 {name} = {buffer.offset};  // {described(buffer)}")
        at = barriers_at(self.program)
        for ring, full, empty in zip(self.program.arefs, self.shared.full, self.shared.empty, strict=True):
            filled = {"tma": "TMA", ir.INSTANCE_RING: "the group that claims instances"}.get(
                ring.transport, ring.transport
            )
            comment = f"barriers of {ring.name}: {ring.depth} slots, filled by {filled}"
            self.out.line(f"constexpr u32 {full} = {at[ring.id][0]}, {empty} = {at[ring.id][1]};  // {comment}")
        if self.program.once_bytes:
            self.out.line(f"constexpr u32 {self.shared.order} = {order_at(self.program)};  // the order of instances")

    def _parameter(self, parameter: PrintedParameter) -> str:
        match parameter.kind:
            case "map":
                return f"const __grid_constant__ TensorMap {parameter.name}"
            case "scalar":
                return f"{scalar_type(parameter.element)} {self.arguments[parameter.name]}"
            case "pointer":
                return f"{memory_type(parameter.element)}* {self.arguments[parameter.name]}"
            case "grid" | "computed":
                return f"{scalar_type(parameter.element)} {parameter.name}"
            case "workspace":
                return f"u32* {parameter.name}"

    def _setup(self) -> None:
        out = self.out
        out.line("// ---- setup")
        setup = self.program.setup
        first = next((at for at, stmt in enumerate(setup) if isinstance(stmt, ir.AwaitEarlierGrids)), len(setup))
        out.line("extern __shared__ __align__(1024) char shared_memory[];")
        out.line("const u32 smem = smem_u32(shared_memory);")
        ctx = replace(self._context(self.sections[0]), locals=self.locals)
        print_block(setup[:first], ctx)
        out.line(f"const u32 warps_before = warp_uniform(threadIdx.x / {_WARP});  // chooses the role")
        if not alone(self.program):
            self._shared(ctx)
        print_block(setup[first:], ctx)

    def _shared(self, ctx: PrintContext) -> None:
        """What threads find made in shared memory."""
        out = self.out
        with out.block("if (threadIdx.x == 0)"):
            for tensor in (one for one in self.program.maps if not one.made):
                out.line(f"tma_prefetch_map(&map{tensor.id});")
            for ring, full, empty in zip(self.program.arefs, self.shared.full, self.shared.empty, strict=True):
                for name, count in ((full, ring.full_count), (empty, ring.empty_count)):
                    loop = f"for (u32 s = 0; s < {ring.depth}; ++s) " if ring.depth > 1 else ""
                    step = f" + s * {BARRIER_BYTES}" if ring.depth > 1 else ""
                    out.line(f"{loop}mbar_init(smem + {name}{step}, {count});")
            if self.program.cancels:
                out.line(f"mbar_init(smem + {answer_at(self.program) + ANSWER}, 1);")
            out.line("mbar_init_fence();")
            print_block(self.program.once, ctx.inside())
        copy_templates(self.program, self.shared, out)
        if self.program.tensor_columns:
            taken = f"tensor_alloc{self._pair}(smem + {tensor_at(self.program)}, {self.program.tensor_taken})"
            out.line("cluster_sync();  // both CTAs are there" if self._pair else "warp_sync();")
            out.line(f"if (warps_before == 0) {taken};")
        cluster = self.program.cluster
        out.line("cluster_sync();" if cluster is not None and cluster.meets_first else "__syncthreads();")

        columns = self.program.tensor_columns
        if columns:
            out.line(f"const u32 tensor = read_shared<u32>(smem + {tensor_at(self.program)});")
            out.line("warp_sync();  // a thread that arrives for its warp arrives behind the others' reads")

    @property
    def _pair(self) -> str:
        """Behind the name of what two CTAs do together."""
        return "_pair" if self.program.pairs else ""

    def _free_tensor_memory(self) -> None:
        """What the first warp took, once nobody reads it any more."""
        if self.program.tensor_columns:
            self.out.line()
            self.out.line("warp_sync();  // the threads that issued, and those of their warps that did not")
            self.out.line("__syncthreads();")
            self.out.line(f"if (warps_before == 0) tensor_free{self._pair}(tensor, {self.program.tensor_taken});")

    # ------------------------------------------------------------ roles
    def _roles(self) -> None:
        """A branch for each; those that are parts of one warp group share a budget, and a branch that sets it (PTX ISA,
        "setmaxnreg": by all warps of a warp group)."""
        parts = [s for s in self.sections if s.stream.registers and s.stream.threads % _WARP_GROUP]
        first = self.sections.index(parts[0]) if parts else len(self.sections)
        whole, inner = self.sections[:first], self.sections[first:]
        for section in whole:
            self._role(section, self.sections)
        if not inner:
            return
        self.out.line()
        self.out.line(f"// ---- the warp group of those that issue: {inner[0].stream.registers} registers")
        with self.out.block("else" if whole else ""):
            self._budget(inner[0].stream)
            for section in inner:
                self._role(section, inner)

    def _role(self, section: Section, among: Sequence[Section]) -> None:
        """One branch of several."""
        group, out = section.stream, self.out
        count = len(section.groups)
        first = sum(before.threads for before in self.program.groups[: section.groups[0]])
        end, last = first + count * group.threads, section is among[-1]
        out.line()
        threads = f"{count} x {group.threads}" if count > 1 else group.threads
        registers = f", {group.registers} registers" if group.registers else ""
        out.line(f"// ---- role: {group.role} ({threads} threads{registers})")
        condition = "" if last else f" (warps_before < {end // _WARP})"
        head = ("if" if section is among[0] else "else if" if not last else "else") + condition
        with out.block(head if len(among) > 1 else ""):
            if among is self.sections:
                self._budget(group)
            ctx = self._context(section)
            if group.issuer:
                with out.block(f"if (warps_before == {first // _WARP} && elect_one())"):
                    self._instances(section, ctx)
                    self._finish(section, ctx)
                self._leave()
            else:
                self._threads(section, first, ctx)
                self._instances(section, ctx)
                self._leave()
                self._finish(section, ctx)

    def _leave(self) -> None:
        """What a role's threads say when they touch the other CTA no more; stores of their own may be under way."""
        cluster = self.program.cluster
        if cluster is not None and cluster.meets_last:
            self.out.line("cluster_arrive();")

    def _threads(self, section: Section, first: int, ctx: PrintContext) -> None:
        """Who a thread is within its warp group, and which of its role's groups that is."""
        out, threads = self.out, section.stream.threads
        thread = f"threadIdx.x - {first}" if first else "threadIdx.x"
        warp = f"warps_before - {first // _WARP}" if first else "warps_before"
        if ctx.place:
            within = (f"({thread})", f"({warp})") if first else (thread, warp)
            out.line(f"const i32 {ctx.place} = {within[1]} / {threads // _WARP};  // which of the groups")
            thread, warp = f"{within[0]} % {threads}", f"{within[1]} % {threads // _WARP}"
        out.line(f"const i32 thread = {thread}, lane = thread % {_WARP};")
        out.line(f"const i32 warp = {warp};")
        first_rows = [f"{lane_row(one)} = warp * {one.warp_rows} + lane / 4" for one in section.stream.shares_of_rows]
        out.line(f"const i32 {', '.join(first_rows)}, lane_column = lane % 4 * 2;")
        out.line("const bool leader = thread == 0;")
        for line in self.own[section.groups]:
            out.line(line)

    def _budget(self, group: ir.WarpGroup) -> None:
        """Registers of the group, compared with those that each thread has at entry."""
        if not group.registers:
            return
        file = self.machine.register_file
        entry = int(file.registers.value) // self.threads // file.granule * file.granule
        word = "grow" if group.registers > min(entry, _MOST_REGISTERS) else "shrink"
        self.out.line(f"regs_{word}<{group.registers}>();")

    def _context(self, section: Section) -> PrintContext:
        names, group = self.names.inside(), section.stream
        roles = [self.program.groups[number].role for number in section.groups]
        place = names.fresh(common_name(roles)) if len(roles) > 1 else ""
        shared, self.own[section.groups] = of_section(self.shared, self.program, section, place, names)
        return PrintContext(
            program=self.program,
            group=group,
            out=self.out,
            shared=shared,
            arguments=self.arguments,
            pointers={p.name: p.element for p in self.parameters if p.kind == "pointer"},
            indices=find_index_fragments(group),
            byte_operands=find_byte_operands(group),
            fragments={fragment.id: names.fresh(fragment.name) for fragment in group.fragments},
            cursors={cursor.id: names.fresh(cursor.name) for cursor in group.cursors},
            shapes=self.shapes,
            names=names,
            locals=dict(self.locals),
            multiples={},
            place=place,
            loaded=names_from_memory((self.program.setup, self.program.walk, group.next, group.body)),
            block=print_block,
        )

    def _instances(self, section: Section, ctx: PrintContext) -> None:
        """The persistent loop."""
        out, group = self.out, section.stream
        declare_made_maps(section.groups, ctx)
        for cursor in group.cursors:
            out.line(declared(cursor, ctx))
        for stmt in group.body:
            if isinstance(stmt, ir.CountReuse):
                declare_reuse_counts(stmt, ctx)
        if group.start:
            out.line("// ---- before the first instance")
            print_block(group.start, ctx.inside())
        shares = tuple(self.program.groups[number].share for number in section.groups)
        mine, of = ctx.expression(PerGroup(tuple(share[0] for share in shares))), shares[0][1]
        asked = (group.next, group.finish) if self.program.walk else group.next
        counted = of > 1 or any(isinstance(node, Local) and node.name == ir.INSTANCES for node in nodes(asked))
        if any(isinstance(stmt, ir.FetchInstance) for stmt in group.stmts):
            out.line(f"u32 {ir.PLACE} = blockIdx.x;  // in the order of instances")
            ctx.locals[ir.PLACE] = ir.PLACE
            if self.program.cancels:
                out.line(f"u32 {ASKED} = 0;")
        declare_seeks(group.next, ctx)
        walks = bool(self.program.walk)
        if (group.loop is None or walks) and counted:
            out.line(f"i32 {ir.INSTANCES} = 0;")
        out.line("#pragma unroll 1")
        with out.block(loop_head(group.loop, counted and not walks, ctx)):
            inner = ctx.inside()
            if counted:
                inner.locals[ir.INSTANCES] = ir.INSTANCES
            print_block(group.next, inner)
            if walks:
                inner.visit = partial(self._visit, group, mine, of, counted)
                print_block(self.program.walk, inner)
            else:
                if of > 1:
                    with out.block(f"if ({ir.INSTANCES} % {of} != {mine})"):
                        print_block(group.skip, inner.inside())
                        out.line("continue;")
                self._work(group, inner)

    def _finish(self, section: Section, ctx: PrintContext) -> None:
        """What comes after the last instance."""
        group = section.stream
        if group.finish:
            self.out.line("// ---- after the last instance")
            after = ctx.inside()
            if any(isinstance(node, Local) and node.name == ir.INSTANCES for node in nodes(group.finish)):
                self._past(after)
            print_block(group.finish, after)

    def _visit(self, group: ir.WarpGroup, mine: str, of: int, counted: bool, ctx: PrintContext) -> None:
        """The work of an instance on a walk, or what a warp group does whose turn it is not."""
        if of > 1:
            with self.out.block(f"if ({ir.INSTANCES} % {of} != {mine})"):
                print_block(group.skip, ctx.inside())
            with self.out.block("else"):
                self._work(group, ctx)
        else:
            self._work(group, ctx)
        if counted:
            self.out.line(f"++{ir.INSTANCES};")

    def _work(self, group: ir.WarpGroup, ctx: PrintContext) -> None:
        """The body, in front of it what it keeps in registers."""
        for fragment in group.fragments:
            kind = "indices" if fragment.id in ctx.indices else fragment.element
            self.out.line(f"{ctx.declaration(fragment.id)}  // {kind}, {layout_text(fragment.layout)}")
        print_block(group.body, ctx.inside())

    def _past(self, ctx: PrintContext) -> None:
        """How many instances the CTA had."""
        if ctx.group.loop is None or self.program.walk:
            ctx.locals[ir.INSTANCES] = ir.INSTANCES  # counted by the loop
            return
        name = ctx.define(ir.INSTANCES)
        self.out.line(f"const i32 {name} = {past(ctx.group.loop, ctx)};")
