import sys
from pathlib import Path
from benchmarks.attention_sweep_members import build, members
print(len(list(members())))
sys.exit(build(Path(sys.argv[1]), "h200"))
