"""Triton's IR, operation by operation, as a tile program with raw accesses."""
