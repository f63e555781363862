"""Promises of reading SASS and PTX."""

from __future__ import annotations

from twill.codegen.compile.listing import read_ptx, read_sass
from twill.codegen.print.kernel_lines import SourceLine

SASS = """
	.section	.text.gemm,"ax",@progbits
.text.gemm:
	//## File "/twill/wgmma_shapes.cuh", line 4 inlined at "/twill/kernel.cu", line 9
	//## File "/twill/kernel.cu", line 9
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   BSSY B0, `(.L_x_0) ;
.L_x_0:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2 ;
        /*0030*/              @!P0 BRA `(.L_x_9) ;
.L_x_1:
	//## File "/twill/kernel.cu", line 12
        /*0040*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;
        /*0050*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24 ;
        /*0060*/               @P1 BRA `(.L_x_0) ;
        /*0070*/                   HGMMA.64x8x16.F32 R4, gdesc[UR4], RZ, !UPT ;
        /*0080*/                   EXIT ;
.L_x_9:
        /*0090*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2 ;
        /*00a0*/              @!P0 BRA `(.L_x_9) ;
        /*00b0*/                   BRA `(.L_x_1) ;
.L_x_10:
        /*00c0*/                   BRA `(.L_x_10);
"""

PTX = """
.visible .entry gemm(
	.param .u64 gemm_param_0
)
{
	.reg .pred 	%p<4>;
	.loc	1 5 3
	ld.param.u64 	%rd1, [gemm_param_0];
$L__BB0_1:
	.loc	1 9 3
	add.s32 	%r3, %r3, 1;
	.loc	2 4 3, function_name $L__info_string0, inlined_at 1 11 3
	// begin inline asm
	{
.reg .pred p;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;
@!p bra WAIT;
}
	// end inline asm
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd2, %rd3, p, 1, 1, 0, 0;
	{
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;
@!p bra WAIT;
}
	@%p1 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_2;
$L__BB0_2:
	ret;
}
	.file	1 "/twill/kernel.cu"
	.file	2 "/twill/ptx.cuh"
"""


def test_multiplies_of_sass_are_counted_by_shape() -> None:
    (listing,) = read_sass(SASS)
    assert listing.function == "gemm"
    assert listing.mmas() == {"m64n128k16": 1, "m64n64k32": 1, "m64n8k16": 1}


def test_a_loop_holds_its_out_of_line_wait_and_not_what_follows_it() -> None:
    (listing,) = read_sass(SASS)
    counts = [dict(listing.mmas(loop)) for loop in listing.loops()]
    assert counts == [{"m64n128k16": 1, "m64n64k32": 1}, {}]  # the main loop; the wait itself


def test_inlined_code_is_placed_at_its_outermost_call() -> None:
    (listing,) = read_sass(SASS)
    assert listing.entries[0].place == SourceLine("/twill/kernel.cu", 9)
    assert listing.entries[4].place == SourceLine("/twill/kernel.cu", 12)


def test_only_a_branch_jumps() -> None:
    (listing,) = read_sass(SASS)
    assert listing.entries[1].opcode == "BSSY"
    assert listing.entries[1].jump == -1


def test_ptx_gives_the_same_kind_of_listing() -> None:
    (listing,) = read_ptx(PTX)
    assert listing.function == "gemm"
    assert listing.mmas() == {"m64n8k16": 1}
    assert [e.place for e in listing.entries if e.opcode.startswith("wgmma")] == [SourceLine("/twill/kernel.cu", 11)]


def test_equal_labels_of_inline_ptx_are_different_loops() -> None:
    (listing,) = read_ptx(PTX)
    loops = listing.loops()
    assert [dict(listing.mmas(loop)) for loop in loops] == [{"m64n8k16": 1}, {}, {}]
    assert [len(loop.entries) for loop in loops[1:]] == [2, 2]
