"""Runs PTX on the CPU, thread by thread: see docs/ptx-executor.md. Imports nothing of Twill but its errors."""
