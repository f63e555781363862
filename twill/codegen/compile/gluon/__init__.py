"""Gluon modules, compiled by the Triton that is installed, and read back (docs/gluon.md)."""
