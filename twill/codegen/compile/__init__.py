"""CUDA text to a cubin, and what the build says about itself."""
