"""`twill calibrate`: microbenchmarks on the GPU that is here, and the machine file that follows from them.

probes.py names what is measured, cuda/ has the programs, workbench.py runs them, measure.py repeats them until they
agree, recording.py keeps what was measured, fits.py says which figure follows from what, apply.py puts figures into a
machine, machine_text.py writes its file; calibrate.py is the whole job.
"""
