"""How long emitted machine code takes on one SM: it is decoded, and an SM is simulated that executes it.

    instruction.py   a disassembly with encodings -> instructions with stalls, scoreboards and branch targets
    constants.py     a launch -> the constant bank that the kernel reads its parameters from
    operands.py, arithmetic.py, scalar.py   what instructions compute, for one lane of each warp
    needed.py        which of them have to be computed, because branches, barriers or addresses depend on them
    program.py       instructions -> what each occupies and does
    state.py, sm.py, units.py   warps, four schedulers and their pipes; units that all share, and barriers
    launch.py        an emitted kernel and a launch of it -> cycles

How long each takes is in the machine file ([simulation]). docs/model.md, "Between issue and result", says what is
modelled and what is not.
"""
