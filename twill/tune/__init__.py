"""Choosing among tiles, row blocks and schedules: all predicted, the best few measured (docs/tuning.md)."""
