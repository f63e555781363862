"""A warp program as the text of one CUDA kernel. The printer only prints: every decision is in the program.

One kernel: setup, then a branch for each warp group with its role, in which a persistent loop walks the instances of
the launch grid. `twill.codegen.aref` says what the statements mean, `twill.codegen.parameters` what a launch passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.aref import Buffer, Cursor, WarpGroup, WarpProgram
from twill.codegen.cuda.context import Context, Shared
from twill.codegen.cuda.elements import memory_type, scalar_type
from twill.codegen.cuda.facts import KernelLines
from twill.codegen.cuda.index_fragments import find_index_fragments
from twill.codegen.cuda.names import Names, identifier
from twill.codegen.cuda.statements import print_block
from twill.codegen.cuda.wgmma import WgmmaShape
from twill.codegen.cuda.writer import Writer
from twill.codegen.expression import ProgramId
from twill.codegen.layout import text as layout_text
from twill.codegen.parameters import Parameter, nodes, parameters
from twill.machine import Machine
from twill.machine_file import load_machine

_BARRIER_BYTES = 8
_WARP = 32
_MOST_REGISTERS = 255  # that an instruction can name
_PROGRAM_ID = ("instance % grid0", "instance / grid0 % grid1", "instance / (grid0 * grid1)")


@dataclass(frozen=True)
class Printed:
    """The text and what its build and launch need. shapes, lines: for `twill.codegen.cuda.build.compile_cubin`.

    function: the kernel's name. threads: of a CTA. shared: bytes of dynamic shared memory.
    """

    text: str
    shapes: tuple[WgmmaShape, ...]
    function: str
    threads: int
    shared: int
    lines: KernelLines


def print_cuda(program: WarpProgram, machine: Machine | None = None) -> Printed:
    """The kernel of `program`. machine: the program's own, by name, unless given.

    Errors: UnsupportedInKernel, LayoutConflict for a statement that has no CUDA.
    """
    return _Kernel(program, machine or load_machine(program.machine)).printed()


class _Kernel:
    """One kernel while it is printed."""

    def __init__(self, program: WarpProgram, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.out = Writer()
        self.names = Names()
        self.shapes: set[WgmmaShape] = set()
        self.threads = sum(group.threads for group in program.groups)
        self.function = f"twill_{identifier(program.program.kernel)}"
        self.parameters = parameters(program)
        self.arguments = {p.name: self.names.fresh(p.name) for p in self.parameters if p.kind in ("scalar", "pointer")}
        self.shared = Shared(
            tuple(self.names.fresh(f"{b.name}_at") for b in program.buffers),
            tuple(self.names.fresh(f"{a.name}_full") for a in program.arefs),
            tuple(self.names.fresh(f"{a.name}_empty") for a in program.arefs),
        )

    def printed(self) -> Printed:
        """All of it."""
        tile = self.program.program
        self.out.line(f"// {tile.kernel} {tile.spec}, for {self.program.machine}".replace("  ", " "))
        self._constants()
        head = f'extern "C" __global__ void __launch_bounds__({self.threads}, 1)\n{self.function}('
        with self.out.block(head + ",\n    ".join(map(self._parameter, self.parameters)) + ")"):
            self._setup()
            for number in range(len(self.program.groups)):
                self._role(number)
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
            self.out.line(f"constexpr u32 {name} = {buffer.offset};  // {_describe(buffer)}")
        at = barriers_at(self.program)
        for ring, full, empty in zip(self.program.arefs, self.shared.full, self.shared.empty, strict=True):
            step = ring.depth * _BARRIER_BYTES
            filled = "TMA" if ring.transport == "tma" else "registers"
            comment = f"barriers of {ring.name}: {ring.depth} slots, filled by {filled}"
            self.out.line(f"constexpr u32 {full} = {at}, {empty} = {at + step};  // {comment}")
            at += 2 * step

    def _parameter(self, parameter: Parameter) -> str:
        match parameter.kind:
            case "map":
                return f"const __grid_constant__ TensorMap {parameter.name}"
            case "scalar":
                return f"{scalar_type(parameter.element)} {self.arguments[parameter.name]}"
            case "pointer":
                return f"{memory_type(parameter.element)}* {self.arguments[parameter.name]}"
            case "grid":
                return f"u32 {parameter.name}"

    def _setup(self) -> None:
        out = self.out
        out.line("// ---- setup")
        out.line("extern __shared__ __align__(1024) char shared_memory[];")
        out.line("const u32 smem = smem_u32(shared_memory);")
        out.line("const u32 instances = grid0 * grid1 * grid2;")
        out.line(f"const u32 warps_before = warp_uniform(threadIdx.x / {_WARP});  // chooses the role")
        with out.block("if (threadIdx.x == 0)"):
            for ring, full, empty in zip(self.program.arefs, self.shared.full, self.shared.empty, strict=True):
                for name, count in ((full, ring.full_count), (empty, ring.empty_count)):
                    loop = f"for (u32 s = 0; s < {ring.depth}; ++s) " if ring.depth > 1 else ""
                    step = f" + s * {_BARRIER_BYTES}" if ring.depth > 1 else ""
                    out.line(f"{loop}mbar_init(smem + {name}{step}, {count});")
            out.line("mbar_init_fence();")
            for tensor in self.program.maps:
                out.line(f"tma_prefetch_map(&map{tensor.id});")
        out.line("__syncthreads();")

    # ------------------------------------------------------------ roles
    def _role(self, number: int) -> None:
        """One branch."""
        group, out = self.program.groups[number], self.out
        first = sum(before.threads for before in self.program.groups[:number])
        last = number == len(self.program.groups) - 1
        out.line()
        registers = f", {group.registers} registers" if group.registers else ""
        out.line(f"// ---- role: {group.role} ({group.threads} threads{registers})")
        condition = "" if last else f" (warps_before < {(first + group.threads) // _WARP})"
        head = ("if" if number == 0 else "else if" if not last else "else") + condition
        with out.block(head if len(self.program.groups) > 1 else ""):
            self._budget(group)
            ctx = self._context(group)
            if group.issuer:
                with out.block(f"if (warps_before == {first // _WARP} && elect_one())"):
                    self._instances(group, ctx)
            else:
                out.line(f"const i32 thread = threadIdx.x{f' - {first}' if first else ''}, lane = thread % {_WARP};")
                out.line(f"const i32 warp = warps_before{f' - {first // _WARP}' if first else ''};")
                out.line("const i32 lane_row = warp * 16 + lane / 4, lane_column = lane % 4 * 2;")
                out.line("const bool leader = thread == 0;")
                self._instances(group, ctx)

    def _budget(self, group: WarpGroup) -> None:
        """Registers of the group, compared with those that each thread has at entry."""
        if not group.registers:
            return
        file = self.machine.register_file
        entry = int(file.registers.value) // self.threads // file.granule * file.granule
        word = "grow" if group.registers > min(entry, _MOST_REGISTERS) else "shrink"
        self.out.line(f"regs_{word}<{group.registers}>();")

    def _context(self, group: WarpGroup) -> Context:
        names = self.names.inside()
        return Context(
            program=self.program,
            group=group,
            out=self.out,
            shared=self.shared,
            arguments=self.arguments,
            indices=find_index_fragments(group),
            fragments={fragment.id: names.fresh(fragment.name) for fragment in group.fragments},
            cursors={cursor.id: names.fresh(cursor.name) for cursor in group.cursors},
            shapes=self.shapes,
            names=names,
            locals={},
            multiples={},
            block=print_block,
        )

    def _instances(self, group: WarpGroup, ctx: Context) -> None:
        """The persistent loop, then what comes after it."""
        out = self.out
        for cursor in group.cursors:
            out.line(self._cursor(cursor, ctx))
        if group.start:
            out.line("// ---- before the first instance")
            print_block(group.start, ctx.inside())
        out.line("#pragma unroll 1")
        with out.block("for (u32 instance = blockIdx.x; instance < instances; instance += gridDim.x)"):
            used = {node.axis for node in nodes((group.body, group.finish)) if isinstance(node, ProgramId)}
            for axis in sorted(used):
                out.line(f"const i32 program_id_{axis} = {_PROGRAM_ID[axis]};")
            for fragment in group.fragments:
                kind = "indices" if fragment.id in ctx.indices else fragment.element
                out.line(f"{ctx.declaration(fragment.id)}  // {kind}, {layout_text(fragment.layout)}")
            print_block(group.body, ctx.inside())
        if group.finish:
            out.line("// ---- after the last instance")
            print_block(group.finish, ctx.inside())

    def _cursor(self, cursor: Cursor, ctx: Context) -> str:
        return f"Cursor<{self.program.arefs[cursor.aref].depth}> {ctx.cursors[cursor.id]};"


def barriers_at(program: WarpProgram) -> int:
    """Bytes from the start of shared memory to the barriers: full, then empty, ring after ring."""
    end = max((buffer.offset + buffer.slots * buffer.bytes for buffer in program.buffers), default=0)
    return -(-end // _BARRIER_BYTES) * _BARRIER_BYTES


def _describe(buffer: Buffer) -> str:
    shape = " x ".join(map(str, buffer.shape))
    return f"{buffer.name}: {buffer.slots} x {shape} {buffer.element}, swizzle {buffer.swizzle}"
