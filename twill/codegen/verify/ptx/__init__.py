"""Runs PTX on the CPU, thread by thread: see docs/ptx-executor.md. Imports `twill.ptx` and errors only."""
