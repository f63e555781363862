"""Run by tests in processes of their own: writes and reads one SQLite store.

python store_worker.py write STORE SAMPLES FIRST COUNT    puts entries, prints the key of each that was kept
python store_worker.py mixed STORE SAMPLES SEED COUNT     puts and gets at random, prints what went wrong

SAMPLES: a file of canonical entries, one a line.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from twill.machine.file import load_machine
from twill.schedule.key import KeyOptions, schedule_key
from twill.store.interface import Entry
from twill.store.sqlite import SqliteStore
from twill.store.validation import now


def main(what: str, store: SqliteStore, samples: list[Entry], first: int, count: int) -> None:
    """One of the two jobs above."""
    machine = load_machine(samples[0].machine)

    def entry(number: int) -> Entry:
        sample = samples[number % len(samples)]
        asked = KeyOptions(seed=number)
        assert sample.graph is not None
        key = schedule_key(sample.graph, sample.machine_digest, asked)
        schedule = sample.schedule.model_copy(update={"key": key})
        update = {"key": key, "schedule": schedule, "schedule_digest": schedule.digest(), "asked": asked}
        return sample.model_copy(update=update | {"created": now()})

    if what == "write":
        for number in range(first, first + count):
            one = entry(number)
            store.keep(one, machine)
            store.put_artifact(one.key, "a.cu", one.key.encode() * 100)
            print(one.key, flush=True)
        return
    chance = random.Random(first)
    numbers = range(20)
    known = {number: entry(number) for number in numbers}
    for _ in range(count):
        one = known[chance.choice(numbers)]
        if chance.random() < 0.5:
            store.keep(one, machine)
        found = store.get(one.key)
        if found is not None and found.schedule != one.schedule:
            print("wrong", one.key)
        artifact = store.get_artifact(one.key, "a.cu")
        if artifact is not None and artifact != one.key.encode() * 100:
            print("wrong artifact", one.key)
        store.put_artifact(one.key, "a.cu", one.key.encode() * 100)
    for one in known.values():
        store.keep(one, machine)
        if store.get(one.key) is None:
            print("lost", one.key)


if __name__ == "__main__":
    word, path, sample_file, number, times = sys.argv[1:]
    lines = Path(sample_file).read_text(encoding="utf-8").splitlines()
    opened = SqliteStore(path, wait=60.0)
    main(word, opened, [Entry.parse(line) for line in lines], int(number), int(times))
    opened.close()
