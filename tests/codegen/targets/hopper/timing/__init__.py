"""Tests of twill.codegen.targets.hopper.timing."""
