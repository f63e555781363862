"""Rewrites of the statements of a warp program; one pass a file."""
