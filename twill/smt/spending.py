"""How much of its budget a search spends on each kind of question."""

COPIES_TRIED_FIRST = 3
FIRST_EFFORT, QUICK_EFFORT = 20_000_000, 1_000_000  # of z3's resource counter: a few seconds, a part of one
EFFORT_GROWTH = 4
FEW = 2  # I of interest are few if the last is less than one part in so many above the first
NEAR = 2  # the last I of interest is near if it is at most so many times the first
AT_ONCE = 8  # one part in so many of a round's effort for all I of interest in one question
AT_FIRST = 16  # the same for a range, where the relaxation has not been asked yet, which may know more for less
PATIENCE = 16  # neighbourhoods without success before a round goes back to questions
SMALLER_SHARE = 4  # one part in so many of the time left goes into a smaller loop,
SMALLER_ROUNDS = 2  # for so many rounds
TO_FALL_BACK = 10.0  # seconds behind the end of a budget that found no schedule, to find any
FOR_ROOM = 4  # one part in so many of the budget is kept for the search for room for late MMAs
IN_RANGE = 4  # one part in so many of a round's effort for a range of I, or for one in the middle of it
