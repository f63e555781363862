"""Trying an emitted kernel on a GPU: data, comparison with the Triton kernel and a reference, times. Needs PyTorch."""
