"""A room of targets as `twill/codegen/targets` is one."""
