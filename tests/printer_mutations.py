"""Small faults of the printer and of the headers: what a survey seeds into the emitted text (`tests.printer_survey`).

Each is a replacement in the text of one file of `twill/codegen/print/cuda`, a header or a module, where it stands once
(`tests.printer_edits` makes it, on a copy in memory). Programs are examples by their names, and kernels of
`tests/printer_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A fault. kind: its class. file: of the printer, where `old` is replaced by `new`. programs: that can show it."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    programs: tuple[str, ...]


def _of(kind: str, file: str, *faults: tuple[str, str, str, Sequence[str]]) -> Iterator[Mutation]:
    """Faults of a kind in one file: (name, old, new, programs)."""
    for name, old, new, programs in faults:
        yield Mutation(name, kind, file, old, new, tuple(programs))


# ---------------------------------------------------------------- programs
GEMM, FP8, GELU, SHORT = "gemm_bf16", "gemm_fp8_e4m3", "gemm_bias_gelu_bf16", "gelu_f16"
FULL, DEEP, CAUSAL, BACK = "attention_full", "attention_full-d64", "attention_causal-d64", "attention_backward_full"
ANY, WINDOW = "attention_any_length_causal-d64", "sliding_window_attention_bf16"
NORM, LINEAR = "layer_norm_bf16", "linear_attention_bf16"
N64, N32, K64, K32 = "across_swizzle-64", "across_swizzle-32", "along_swizzle-64", "along_swizzle-32"
COLUMNS, INTEGERS, DUAL, ROWS = "columns_bf16", "integers_i32", "dual_gemm_bf16", "columns_rows-64"
LIBRARY, EXTREMES, SCATTERED = "functions_f32", "extremes_rows", "scattered_f32"

_NOTHING = 'asm volatile("" ::: "memory");'

MUTATIONS: tuple[Mutation, ...] = (
    # ------------------------------------------------------------ where things lie
    *_of(
        "swizzle", "tile.cuh",
        ("128 bytes", "row & 7", "row & 3", [GEMM, DEEP]),
        ("64 bytes", "row >> 1 & 3", "row & 3", [N64]),
        ("32 bytes", "row >> 2 & 1", "row >> 1 & 1", [N32]),
        ("exchanged with 64 for 128 bytes", "SWIZZLE == 128 ? row & 7 : SWIZZLE == 64 ?",
         "SWIZZLE == 64 ? row & 7 : SWIZZLE == 128 ?", [N64, GEMM]),
        ("step adds", "(SWIZZLE ? at ^ chunks", "(SWIZZLE ? at + chunks", [GEMM]),
        ("step over panels of one row", "bytes / PANEL * (ROWS * PANEL);", "bytes / PANEL * PANEL;", [GEMM]),
    ),
    *_of(
        "descriptor", "wgmma.cuh",
        ("strides exchanged", "(u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32",
         "(u64)(stride >> 4) << 16 | (u64)(leading >> 4) << 32", [GEMM]),
        ("modes of 128 and 64 bytes exchanged", "SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2",
         "SWIZZLE == 128 ? 2 : SWIZZLE == 64 ? 1", [GEMM]),
        ("modes of 64 and 32 bytes exchanged", "SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3",
         "SWIZZLE == 64 ? 3 : SWIZZLE == 32 ? 2", [N64, N32]),
        ("no swizzle of 32 bytes", "SWIZZLE == 32 ? 3 : 0", "SWIZZLE == 32 ? 0 : 0", [K32]),
        ("addresses of 16 bits", "addr & 0x3ffff", "addr & 0xffff", [GEMM]),
        ("stride of half a pattern", "smem_descriptor<SWIZZLE>(addr, 16, 8 * SWIZZLE)",
         "smem_descriptor<SWIZZLE>(addr, 16, 4 * SWIZZLE)", [K64]),
        ("strides of N-major exchanged", "smem_descriptor<SWIZZLE>(addr, panel_bytes, 8 * SWIZZLE)",
         "smem_descriptor<SWIZZLE>(addr, 8 * SWIZZLE, panel_bytes)", [GEMM]),
        ("advance in other units", "descriptor + (bytes >> 4)", "descriptor + (bytes >> 3)", [GEMM]),
    ),
    *_of(
        "descriptor", "print_wgmma.py",
        ("advance of half a step", '{steps} * {STEP_BYTES} + {ks}', '{steps} * {STEP_BYTES // 2} + {ks}', [FULL]),
        ("advance over no panel", "{ks} / {steps} * {self.panel_stride}", "{ks} / {steps} * 0", [FULL]),
        ("advance of N-major", "STEP_BYTES // self.size * panel, mn", "8 * panel, mn", [GEMM]),
        ("rows of the other half", "mn * panel}\" if mn", "(mn - 64) * panel}\" if mn", [GEMM]),
        ("majors exchanged", "flags = [int(side.mn_major) for side in (self._a, self._b) if side]",
         "flags = [int(side.mn_major) for side in (self._b, self._a) if side]", [GEMM]),
    ),
    *_of(
        "place in shared memory", "context.py",
        ("slots of half their size", "else buffer.bytes\n",
         "else buffer.bytes // 2\n", [GEMM]),
        ("empty barrier for full", 'self.shared.full[self.cursor(cursor).aref]}" + self._times(cursor, 8)',
         'self.shared.empty[self.cursor(cursor).aref]}" + self._times(cursor, 8)', [N64]),
        ("part of one panel", "return panel * buffer.shape[0] * buffer.panel", "return panel * buffer.panel", [GEMM]),
    ),
    *_of(
        "place in shared memory", "shared.py",
        ("empty barriers over full ones", "found.append((at, at + ring.depth * BARRIER_BYTES))",
         "found.append((at, at + (ring.depth - 1) * BARRIER_BYTES))", [N64]),
        ("rings over one another", "at += 2 * ring.depth * BARRIER_BYTES", "at += ring.depth * BARRIER_BYTES", [FULL]),
    ),
    # ------------------------------------------------------------ order
    *_of(
        "fence or wait that does nothing", "wgmma.cuh",
        ("wgmma fence", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', _NOTHING, [GEMM, DEEP]),
        ("wgmma commit", 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");', _NOTHING, [GEMM]),
        ("wgmma wait", 'asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");', _NOTHING, [GEMM]),
    ),
    *_of(
        "fence or wait that does nothing", "ptx.cuh",
        ("proxy fence", 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', _NOTHING, [GEMM]),
        ("fence of another proxy", "fence.proxy.async.shared::cta;", "fence.proxy.async.global;", [GEMM]),
        ("bulk wait", 'asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory");', _NOTHING, [BACK, GEMM]),
        ("bulk wait for reads", 'asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory");', _NOTHING,
         [GEMM]),
        ("bulk commit", 'asm volatile("cp.async.bulk.commit_group;" ::: "memory");', _NOTHING, [GEMM]),
        ("named barrier", 'asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");', _NOTHING, [GEMM]),
        ("mbarrier", "@!p bra WAIT;", "", [N64]),
        ("warp barrier", "DEV void warp_sync() { __syncwarp(); }", "DEV void warp_sync() { }", [N64, NORM]),
    ),
    *_of(
        "commits and depths of waits", "print_wgmma.py",
        ("one more pending", "wgmma_wait<{stmt.pending}>", "wgmma_wait<{stmt.pending + 1}>", [GEMM, DEEP]),
        ("no fence where registers were touched", 'ctx.out.line("wgmma_fence();")', "pass", [LINEAR]),
    ),
    *_of(
        "commits and depths of waits", "print_synchronization.py",
        ("one more bulk group pending", "<{stmt.pending}>();", "<{stmt.pending + 1}>();", [GEMM]),
    ),
    *_of(
        "parity", "tile.cuh",
        ("ring of two slots", "parity ^= slot; slot ^= 1;", "slot ^= 1; parity ^= slot;", [FULL]),
        ("ring of one slot", "if constexpr (DEPTH == 1) parity ^= 1;", "if constexpr (DEPTH == 1) parity ^= 0;",
         [FULL]),
        ("longer ring", "{ slot = 0; parity ^= 1; }", "{ slot = 0; }", [N64]),
        ("a slot too many", "if (++slot == DEPTH)", "if (++slot > DEPTH)", [N64]),
        ("skipping", "parity ^= past / DEPTH & 1;", "parity ^= past % DEPTH & 1;", [GEMM]),
    ),
    *_of(
        "parity", "print_synchronization.py",
        ("of an empty slot", ".parity ^ 1);", ".parity);", [N64]),
        ("of a full slot", "{ctx.cursors[stmt.cursor]}.parity);\")", "{ctx.cursors[stmt.cursor]}.parity ^ 1);\")",
         [N64]),
    ),
    *_of(
        "parity", "ptx.cuh",
        ("every one", ':: "r"(bar), "r"(parity) : "memory");\n}\n\n',
         ':: "r"(bar), "r"(parity ^ 1) : "memory");\n}\n\n',
         [N64]),
    ),
    *_of(
        "named barrier", "shared.py",
        ("one for all", "str(b.id + 1) for b", "str(1) for b", [GEMM]),
    ),
    *_of(
        "named barrier", "print_synchronization.py",
        ("of a warp less", '_at_barrier("sync", stmt.barrier, ctx)',
         "ctx.out.line(f'bar_sync({ctx.shared.named[stmt.barrier]}, "
         "{ctx.program.barriers[stmt.barrier].threads - 32});')", [GEMM]),
        ("of a warp group more", '_at_barrier("sync", stmt.barrier, ctx)',
         "ctx.out.line(f'bar_sync({ctx.shared.named[stmt.barrier]}, "
         "{ctx.program.barriers[stmt.barrier].threads + 128});')", [GEMM]),
    ),
    *_of(
        "named barrier", "ptx.cuh",
        ("that arrives to wait", 'asm volatile("bar.sync %0', 'asm volatile("bar.arrive %0', [GEMM]),
    ),
    *_of(
        "bytes and arrivals", "print_synchronization.py",
        ("half of the bytes", "{stmt.bytes});\"", "{stmt.bytes // 2});\"", [N64]),
        ("16 bytes too many", "mbar_arrive_tx({ctx.full(stmt.cursor)}, {stmt.bytes});",
         "mbar_arrive_tx({ctx.full(stmt.cursor)}, {stmt.bytes + 16});", [N64]),
        ("of two lanes", 'ctx.out.line(f"if (lane == 0) mbar_arrive({barrier});")',
         'ctx.out.line(f"if (lane <= 1) mbar_arrive({barrier});")', [N64]),
        ("by every thread", 'f"if (leader) {text}"', 'f"if (true) {text}"', [BACK]),
    ),
    *_of(
        "bytes and arrivals", "printer.py",
        ("counts exchanged", "((full, ring.full_count), (empty, ring.empty_count))",
         "((full, ring.empty_count), (empty, ring.full_count))", [N64]),
        ("one too many", "mbar_init(smem + {name}{step}, {count});", "mbar_init(smem + {name}{step}, {count + 1});",
         [N64]),
        ("last slot without", "for (u32 s = 0; s < {ring.depth}; ++s)", "for (u32 s = 0; s < {ring.depth - 1}; ++s)",
         [FULL]),
    ),
    *_of(
        "bytes and arrivals", "ptx.cuh",
        ("announced without an arrival", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
         "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;", [N64]),
        ("announced to a neighbour",
         'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar)',
         'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar + 8)', [N64]),
    ),
    # ------------------------------------------------------------ threads
    *_of(
        "who does it", "ptx.cuh",
        ("all but the elected", r"elect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;",
         r"elect.sync _|p, 0xffffffff;\nselp.u32 %0, 0, 1, p;", [N64]),
    ),
    *_of(
        "who does it", "printer.py",
        ("every warp of a role", "if (warps_before == {first // _WARP} && elect_one())",
         "if (warps_before >= {first // _WARP} && elect_one())", [N64]),
        ("thread of the group", 'thread = f"threadIdx.x - {first}" if first else "threadIdx.x"',
         'thread = f"threadIdx.x - {first}" if first else "threadIdx.x + 32"', [INTEGERS, COLUMNS]),
        ("rows of lanes", "warp * {one.warp_rows} + lane / 4", "warp * {one.warp_rows} + lane / 8", [K64]),
        ("columns of lanes", "lane_column = lane % 4 * 2", "lane_column = lane % 4", [K64]),
        ("boundary of roles", "(warps_before < {end // _WARP})", "(warps_before <= {end // _WARP})", [N64]),
    ),
    *_of(
        "setmaxnreg", "ptx.cuh",
        ("grows for shrinks", 'asm volatile("setmaxnreg.dec.sync', 'asm volatile("setmaxnreg.inc.sync', [GEMM]),
        ("shrinks for grows", 'asm volatile("setmaxnreg.inc.sync', 'asm volatile("setmaxnreg.dec.sync', [GEMM]),
    ),
    *_of(
        "setmaxnreg", "printer.py",
        ("more than there are", "regs_{word}<{group.registers}>();", "regs_{word}<{group.registers + 16}>();", [GEMM]),
        ("no multiple of 8", "regs_{word}<{group.registers}>();", "regs_{word}<{group.registers + 4}>();", [GEMM]),
    ),
    # ------------------------------------------------------------ transfers
    *_of(
        "coordinates of boxes", "ptx.cuh",
        ("two exchanged", '(i32 x0, i32 x1), ("r"(x0), "r"(x1))', '(i32 x0, i32 x1), ("r"(x1), "r"(x0))', [N64]),
        ("three exchanged", '(i32 x0, i32 x1, i32 x2), ("r"(x0), "r"(x1), "r"(x2))',
         '(i32 x0, i32 x1, i32 x2), ("r"(x0), "r"(x2), "r"(x1))', [BACK, ANY]),
    ),
    *_of(
        "coordinates of boxes", "print_synchronization.py",
        ("outermost first", "for coordinate in reversed(coordinates)", "for coordinate in coordinates", [N64]),
        ("store for sum", 'f"tma_reduce_{stmt.combine}" if stmt.combine else', '"tma_store" if stmt.combine else',
         [BACK]),
        ("maximum for sum", 'f"tma_reduce_{stmt.combine}" if', '"tma_reduce_max" if', [BACK]),
    ),
    # ------------------------------------------------------------ fragments
    *_of(
        "halves and order of registers", "fragment.cuh",
        ("pair of bf16", 'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo))',
         'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(lo), "f"(hi))', [N64]),
        ("pair of f16", 'asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo))',
         'asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(lo), "f"(hi))', [SHORT]),
        ("low for high bf16", "__uint_as_float(v & 0xffff0000u); }\nDEV float low_f16",
         "__uint_as_float(v << 16); }\nDEV float low_f16", [NORM, GELU]),
        ("rows of stored matrices", '"r"(smem), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");',
         '"r"(smem), "r"(a), "r"(c), "r"(b), "r"(d) : "memory");', [N64]),
        ("rows of loaded matrices", '"=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(smem)',
         '"=r"(a), "=r"(c), "=r"(b), "=r"(d) : "r"(smem)', [FULL]),
        ("transposed matrices", 'TWILL_MATRIX(, "")', 'TWILL_MATRIX(, ".trans")', [N64]),
        ("picked the other one", "selp.f32 %0, %1, %2, p;", "selp.f32 %0, %2, %1, p;", [K64, BACK]),
    ),
    *_of(
        "halves and order of registers", "tile.cuh",
        ("element of a pair of bf16", "i & 1 ? high_bf16(pairs[i / 2])", "i & 1 ? low_bf16(pairs[i / 2])", [NORM]),
    ),
    *_of(
        "halves and order of registers", "elements.py",
        ("halves of words", 'for half in ("low", "high")', 'for half in ("high", "low")', [GELU]),
    ),
    *_of(
        "halves and order of registers", "ptx.cuh",
        ("words of 16 bytes", '"=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)',
         '"=r"(v.y), "=r"(v.x), "=r"(v.z), "=r"(v.w)',
         [NORM, CAUSAL]),
        ("words of 8 bytes", '"r"(smem), "r"(v.x), "r"(v.y) : "memory"); }',
         '"r"(smem), "r"(v.y), "r"(v.x) : "memory"); }',
         [K64]),
    ),
    *_of(
        "halves and order of registers", "multiply_shapes.py",
        ("registers of A", '\'"r"(a[{i}])\' for i in range(4)',
         '\'"r"(a[{i ^ 3 if i in (1, 2) else i}])\' for i in range(4)',
         [DEEP]),
        ("registers of D", '\'"+f"(d[{i}])\' for i in range(count)', '\'"+f"(d[{i ^ 2}])\' for i in range(count)',
         [N64]),
        ("starts anew when it accumulates", "setp.ne.b32 p, %{b_at + 1}, 0;", "setp.eq.b32 p, %{b_at + 1}, 0;", [N64]),
        ("negated B", '["p", "1", "1", *', '["p", "1", "-1", *', [N64]),
    ),
    *_of(
        "halves and order of registers", "print_wgmma.py",
        ("registers of A by two", '"4 * ks")', '"2 * ks")', [DEEP]),
        ("columns of D", "first = block * layout.columns // 2 + column // 2",
         "first = block * layout.columns // 4 + column // 2",
         [GEMM]),
        ("sums from the start", '"true" if stmt.accumulate else "ks != 0"', '"true" if stmt.accumulate else "ks != 1"',
         [DEEP]),
    ),
    *_of(
        "row or column of a fragment", "places.py",
        ("rows four apart", 'row, inner = f"({i} >> 1 & 1) * 8", i', 'row, inner = f"({i} >> 1 & 1) * 4", i', [CAUSAL]),
        ("columns by registers", '"lane_column", f"{inner} / 4 * 8 + ({i} & 1)"',
         '"lane_column", f"{inner} / 4 * 8 + ({i} >> 1 & 1)"', [CAUSAL]),
        ("rows of a vector", '{parent.block_step} + ({i} & 1) * 8"', '{parent.block_step} + ({i} & 1) * 16', [FULL]),
        ("columns of a vector", 'f"{i} / 2 * 8 + ({i} & 1)"', 'f"{i} / 2 * 4 + ({i} & 1)"', [GELU]),
        ("vector of rows met by columns", 'return f"({i} >> 1 & 1)" if rows <= 64',
         'return f"({i} & 1)" if rows <= 64', [DEEP]),
        ("vector of columns met by rows", '({inner} / 4 * 2 + ({i} & 1))"', '({inner} / 4 * 2 + ({i} >> 1 & 1))"',
         [GELU]),
        ("lanes that store rows", '"lane % 4 == 0"', '"lane % 8 == 0"', [FULL, COLUMNS]),
        ("lanes that store columns", '"warp == 0 && lane < 4"', '"lane < 4"', [COLUMNS]),
        ("elements of a thread", "layout.run, layout.step\n", "layout.run, layout.step // 2\n", [INTEGERS]),
    ),
    *_of(
        "row or column of a fragment", "print_shared.py",
        ("rows of lanes", "lane % 16{_plus(row)}", "lane % 8{_plus(row)}", [N64]),
        ("columns of lanes", "lane / 16 * {_CHUNK});", "lane / 8 % 2 * {_CHUNK});", [N64]),
        ("columns of steps", "j * {2 * columns}{_plus(byte + 2 * first)}", "j * {columns}{_plus(byte + 2 * first)}",
         [N64]),
        ("rows of pairs", '(i >> 1 & 1) * {8 * move.buffer.panel}', '(i >> 1 & 1) * {4 * move.buffer.panel}', [K64]),
        ("columns of pairs", "i / 4 * {8 * size}{_plus(byte)}", "i / 2 * {8 * size}{_plus(byte)}", [K64]),
        ("rows stored apart", "' ^ (lane & 4) << 4' if apart", "' ^ (lane & 2) << 4' if apart", [BACK]),
        ("blocks of rows",
         "mb * {layout.block_step * move.buffer.panel}\" if layout.rows > 64 else \"\"\n                out",
         "mb * {layout.block_step // 2 * move.buffer.panel}\" if layout.rows > 64 else \"\"\n                out",
         [N64]),
    ),
    *_of(
        "reduction", "print_reduce.py",
        ("register of a row", 'first = "r * 2" if rows <= 64', 'first = "r" if rows <= 64', [DEEP]),
        ("every second register", '_Plan(first, "i * 4", columns // 8', '_Plan(first, "i * 2", columns // 8', [DEEP]),
        ("two of four lanes", "_ACROSS_ROWS, _ALL_LANES = (1, 2),", "_ACROSS_ROWS, _ALL_LANES = (1, 1),", [DEEP]),
        ("lanes of columns", "(4, 8, 16), (16", "(4, 8, 8), (16", [COLUMNS]),
        ("without the second warp", "i32 w = 1; w < {together}", "i32 w = 2; w < {together}",
         [NORM, COLUMNS]),
        ("without a barrier", 'out.line(ctx.barrier("sync", stmt.barrier))', "pass", [NORM]),
        ("one place for all warps", "scratch + (warp * {count} + r) * {row}", "scratch + r * {row}", [NORM]),
        ("one chain of two", "for chain in chains[1:]:", "for chain in chains[2:]:", [DEEP]),
    ),
    *_of(
        "reduction", "ptx.cuh",
        ("shuffles down", "__shfl_xor_sync(0xffffffffu, v, lanes)", "__shfl_down_sync(0xffffffffu, v, lanes)", [DEEP]),
        ("all for any", "__any_sync(0xffffffffu, p)", "__all_sync(0xffffffffu, p)", [FULL]),
    ),
    # ------------------------------------------------------------ numbers
    *_of(
        "constants", "print_elementwise.py",
        ("log2(e)", "1.4426950408889634f", "1.44f", [K64]),
        ("log2(e) in single digits", "1.4426950408889634f", "1.4427f", [K64]),
        ("factor of erfc", "2 * float(op.attributes.get(FACTOR, 1.0))", "2.02 * float(op.attributes.get(FACTOR, 1.0))",
         [GELU]),
    ),
    *_of(
        "constants", "tile.cuh",
        ("erfc of f16", "0.9183989f", "0.9283989f", [SHORT]),
        ("erfc of f16, tail's side", "x < 0.f ? 2.f - tail : tail", "x > 0.f ? 2.f - tail : tail", [SHORT]),
        ("erfc of bf16", "0.30392334f", "0.31392334f", [GELU]),
        ("erfc of bf16, leading", "3.252683f", "3.292683f", [GELU]),
    ),
    *_of(
        "rounding", "fragment.cuh",
        ("bf16 towards zero", "cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32", [N64, GEMM]),
        ("f16 towards zero", "cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", [SHORT]),
    ),
    *_of(
        "functions", "fragment.cuh",
        ("sine for exponential", "ex2.approx.ftz.f32", "sin.approx.ftz.f32", [DEEP]),
        ("reciprocal root for reciprocal", "rcp.approx.ftz.f32", "rsqrt.approx.ftz.f32", [DUAL, GELU]),
        ("reciprocal root for root", '"sqrt.approx.ftz.f32', '"rsqrt.approx.ftz.f32', [NORM]),
        ("quotient upside down", '"div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)',
         '"div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(y), "f"(x)', [DEEP]),
    ),
    *_of(
        "signs and comparisons", "print_elementwise.py",
        ("greater or equal for greater", "{COMPARISONS[predicate]}", "{(COMPARISONS | {'gt': '>='})[predicate]}",
         [INTEGERS]),
        ("greater for greater or equal", "{COMPARISONS[predicate]}", "{(COMPARISONS | {'ge': '>'})[predicate]}",
         [CAUSAL, WINDOW]),
        ("unsigned comparison as signed",
         "    if op.unsigned:\n        left, right = _unsigned(op, left), _unsigned(op, right)\n", "", [INTEGERS]),
        ("unsigned shift as signed", "_unsigned(op, op.operands[0]) if op.unsigned else op.operands[0]",
         "op.operands[0]",
         [INTEGERS]),
        ("unsigned remainder as signed", "if not op.unsigned:\n        return f\"({left} {sign}",
         "if True:\n        return f\"({left} {sign}", [INTEGERS]),
        ("selects the other", "({condition} ? {yes} : {no})", "({condition} ? {no} : {yes})", [INTEGERS]),
        ("minimum for maximum", '"max": _extremum("max")', '"max": _extremum("min")', [COLUMNS]),
    ),
    *_of(
        "signs and comparisons", "print_registers.py",
        ("apart the other way", "bound((i64){left} - (i64){right})", "bound((i64){right} - (i64){left})", [CAUSAL]),
        ("constants the other way", "({more}) - ({less})", "({less}) - ({more})", [CAUSAL]),
        ("vote on greater factors", "!= 1.0f", "> 1.0f", [DEEP]),
        ("pairs of one element", "{element_at('i').text}, {element_at('(i + 1)').text}",
         "{element_at('i').text}, {element_at('i').text}", [N64]),
    ),
    # ------------------------------------------------------------ guards and masks
    *_of(
        "guards", "print_control.py",
        ("an iteration more", '{step} = {stmt.stages}; {step} < {trip}; ++{step})"):',
         '{step} = {stmt.stages}; {step} <= {trip}; ++{step})"):',
         [N64]),
        ("an iteration less", '{step} = {stmt.stages}; {step} < {trip}; ++{step})"):',
         '{step} = {stmt.stages} + 1; {step} < {trip}; ++{step})"):', [N64]),
        ("epilogue too early", "max({trip}, {stmt.stages})", "min({trip}, {stmt.stages})", [WINDOW, CAUSAL]),
        ("first half to the end", "&& !{body.expression(stmt.until)}", "", [CAUSAL]),
        ("counted from 1", "{count} + 1 : 0;", "{count} + 1 : 1;", [GEMM]),
    ),
    *_of(
        "store masks", "print_global.py",
        ("one more", '"{constant} < high{k}"', '"{constant} <= high{k}"', [INTEGERS, COLUMNS]),
        ("first of a vector only",
         "((0, width - 1) if parted else (0,)) for c in _conditions(access, e)))\n    out.line((f\"if",
         "((0,)) for c in _conditions(access, e)))\n    out.line((f\"if", [NORM, INTEGERS]),
        ("bound without the offset", '"" if _is(axis.offset, 0) else f" - {ctx.expression(axis.offset)}"',
         '""', [INTEGERS]),
        ("store for atomic sum", "action = _atomic(combine, element, place, value) if combine else",
         "action = ", [COLUMNS]),
    ),
    # ------------------------------------------------------------ the order of instances
    *_of(
        "tile scheduler", "print_unsigned.py",
        ("columns of a band", '"div": ("/", 5)', '"div": ("%", 5)', [N32, CAUSAL]),
        ("quotient for remainder", '"rem": ("%", 5)', '"rem": ("/", 5)', [INTEGERS, DEEP]),
        ("last band as long as others", "{kind}({', '.join", "max({', '.join", [N32, CAUSAL]),
        ("products without parentheses", "print_unsigned(right, other, strength + 1)",
         "print_unsigned(right, other, strength)", [N32]),
        ("one more is left", "_between(COMPARISONS[", '_between((COMPARISONS | {"lt": "<="})[', [CAUSAL, NORM]),
        ("the other of two", "{parts[0]} ? {parts[1]} : {parts[2]}", "{parts[0]} ? {parts[2]} : {parts[1]}", [GEMM]),
    ),
    *_of(
        "tile scheduler", "print_tile_scheduler.py",
        ("claims from the first", "{ir.PLACE} = gridDim.x + atomic_count", "{ir.PLACE} = atomic_count", [CAUSAL, NORM]),
        ("one claim too many", "atomic_count(claims, instances - 1)", "atomic_count(claims, instances)", [CAUSAL,
         NORM]),
        ("an axis further", "program_id_{stmt.axis}", "program_id_{(stmt.axis + 1) % 3}", [CAUSAL]),
        ("instances beyond the last", "{ir.INSTANCE} < {end}", "{ir.INSTANCE} <= {end}", [BACK]),
        ("kept in another order", "count(value, ctx) for value in stmt.values)",
         "count(value, ctx) for value in stmt.values[::-1])", [CAUSAL]),
    ),
    # ------------------------------------------------------------ functions of CUDA's library, data as addresses
    *_of(
        "library", "print_elementwise.py",
        ("operands exchanged", "single}({', '.join(op.operands)})\"",
         "single}({', '.join(op.operands[::-1])})\"", [LIBRARY]),
        *((f"{wrong} for {right}", '"pow", *LIBRARY)},',
           f'"pow", *LIBRARY)}},\n    "{right}": _function("{wrong}f", "{wrong}"),', [LIBRARY])
          for right, wrong in (("trunc", "rint"), ("rint", "trunc"), ("round", "rint"), ("log1p", "log"),
                               ("expm1", "exp"), ("cosh", "sinh"), ("hypot", "fmax"), ("atan2", "fmin"))),
    ),
    *_of(
        "eight bits", "tile.cuh",
        ("infinity of e5m2 as the largest number", "return pack_e5m2(x, 0.f) & 0xff;",
         "return saturate_e5m2(x, 0.f) & 0xff;", [LIBRARY]),
        ("overflow of e5m2 as infinity", "from_bits_e5m2(saturate_e5m2(x, 0.f) & 0xff)", "from_bits_e5m2(bits_e5m2(x))",
         [LIBRARY]),
        ("e5m2 to nearest for towards zero", "from_bits_e5m2(bits_e5m2(truncate_f16(x)))",
         "round_e5m2(x)", [LIBRARY]),
        ("e5m2 read as e4m3", "return low_f16(e5m2_to_f16(bits & 0xff));", "return low_f16(e4m3_to_f16(bits & 0xff));",
         [LIBRARY]),
    ),
    *_of(
        "eight bits", "fragment.cuh",
        ("bytes of e5m2 exchanged", "pack_f16(c, d), 0x7531)", "pack_f16(c, d), 0x7513)", [LIBRARY]),
        ("lower bytes of e5m2", "pack_f16(c, d), 0x7531)", "pack_f16(c, d), 0x6420)", [LIBRARY]),
    ),
    *_of(
        "atomics", "atomics.cuh",
        ("signed maximum of unsigned numbers", "global.max.u32", "global.max.s32", [EXTREMES]),
        ("maximum for unsigned minimum", "global.min.u32", "global.max.u32", [EXTREMES]),
        ("sum for unsigned maximum", "global.max.u32", "global.add.u32", [EXTREMES]),
    ),
    *_of(
        "atomics", "print_global.py",
        ("signed maximum and minimum for unsigned", "reduce_{combine}(({kind}*)(at + {place}), ({kind}){value});",
         "reduce_{combine[1:]}((({element}*)at + {place}), {value});", [EXTREMES]),
        ("minimum for maximum", "return f\"reduce_{combine}(at",
         "return f\"reduce_{'min' if combine == 'max' else 'max'}(at", [EXTREMES]),
    ),
    *_of(
        "data as addresses", "print_global.py",
        ("conditions of tiles left out",
         "    return out + [access.ctx.operand(tile, access.layout, i) for tile in access.window.where]",
         "    return out", [SCATTERED, EXTREMES]),
        ("index of the register before",
         'terms.append(f"(i64){access.ctx.operand(index.tile, access.layout, i)}{scale}")',
         'terms.append(f"(i64){access.ctx.operand(index.tile, access.layout, \'0\')}{scale}")', [SCATTERED]),
        ("index twice as far", 'terms.append(f"(i64){access.ctx.operand(index.tile, access.layout, i)}{scale}")',
         'terms.append(f"2 * (i64){access.ctx.operand(index.tile, access.layout, i)}{scale}")', [SCATTERED]),
    ),
    *_of(
        "extremes with their index", "print_elementwise.py",
        ("different for equal", "{COMPARISONS[predicate]}", "{(COMPARISONS | {'eq': '!='})[predicate]}", [EXTREMES]),
        ("NaN is equal", 'return f"({left} {COMPARISONS[predicate]} {right})"',
         'return f"!({left} {COMPARISONS[NEGATED.get(predicate, predicate)]} {right})" if predicate in NEGATED else '
         'f"({left} {COMPARISONS[predicate]} {right})"', [EXTREMES, LIBRARY]),
    ),
)  # fmt: skip
