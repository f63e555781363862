"""The texts of the microbenchmarks, compiled by twill.calibrate.workbench."""
