"""What single PTX instructions do to bits: tensor maps, matrix fragments, wgmma.

Pure NumPy, read from the PTX ISA alone: nothing here knows a kernel, a printer or a warp program.
"""
