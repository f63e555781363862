"""The warp program as a module of Gluon, Triton's lower-level language (docs/gluon.md)."""
