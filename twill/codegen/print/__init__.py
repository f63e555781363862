"""Warp programs as text that a compiler reads."""
