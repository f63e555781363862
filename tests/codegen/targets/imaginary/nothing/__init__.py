"""A GPU that nobody built."""

from twill.codegen.targets.base import Target

TARGET = Target("Nothing", ("sm_0",))
