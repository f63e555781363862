"""Hopper (H100, H200): wgmma, TMA, mbarriers, setmaxnreg."""

from twill.codegen.targets.base import Target

TARGET = Target("Hopper", ("sm_90a",))
