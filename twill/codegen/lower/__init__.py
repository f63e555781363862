"""Schedule and tile program to warp program."""
