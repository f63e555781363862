"""PTX as text and as data, and what the instructions compute that touch registers alone. NumPy and the PTX ISA: nothing
here knows a kernel, a printer, threads or memory, which are `twill.codegen.verify.ptx`."""
