"""What an emission must pass: its machine code, executed on the CPU without knowledge of warp programs."""
