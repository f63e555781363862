"""Exit codes of the command line. Scripts depend on them (docs/commands.md)."""

SOLVED = 0
SCRIPT_RAISED = 1  # `twill run script.py`, as Python says it
BAD_INPUT = 2
INFEASIBLE = 3
BUDGET_EXHAUSTED = 4
INTERNAL_ERROR = 5
NOT_GOOD = 6  # what was to be verified is not as it should be: `store verify`, `store import`, `ci`, `check --gluon`
INTERRUPTED = 130  # 128 + SIGINT
TERMINATED = 143  # 128 + SIGTERM
BROKEN_PIPE = 141  # 128 + SIGPIPE
