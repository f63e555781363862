"""Small Triton kernels, written at random: the tile program of each must compute what Triton does.

`values` makes awkward inputs, `writer` and `programs` write kernels, `holding` runs one by Triton's interpreter and by
the interpreter of tile programs and compares. `python -m tests.generated --count 20000` is the nightly form.
"""
