"""GPUs that code is made for: `base.py` says what a target is, each folder beside it is one."""
