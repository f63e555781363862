"""A GPU that nobody built: it has no matrix multiply."""

from twill.codegen.targets.base import Target

TARGET = Target("Nothing", ("sm_0",))
