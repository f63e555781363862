"""The whole solve: options, candidates of cooperation, bounds, joint search, assembly, check."""
