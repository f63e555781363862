"""The one harness that times emitted kernels on a GPU beside what people would use instead (docs/benchmarks.md)."""
