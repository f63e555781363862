"""The tile program: grammar, text, translation from Triton's IR, interpreter, rewrites; no hardware."""
