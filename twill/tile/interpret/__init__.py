"""Runs tile programs on NumPy arrays: the one meaning that every later program is held against."""
