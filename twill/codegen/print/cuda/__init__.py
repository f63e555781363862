"""CUDA for Hopper: the PTX header, the build, and what the build says about itself."""
