"""What leaves the store when it is full: what was looked up least recently and is not pinned.

Look-ups are noted in memory and written down together, so that reading seldom writes. What a killed process looked up
last is not known; that does no harm.
"""

from __future__ import annotations

import threading
import time

from twill.store.session import SqlSession

EVERY = 5.0  # seconds; look-ups are written down together, at most this late
OLDEST = """SELECT 'schedules', key, '', bytes, used FROM schedules WHERE key NOT IN (SELECT key FROM pins)
    UNION ALL SELECT 'artifacts', key, name, bytes, used FROM artifacts WHERE key NOT IN (SELECT key FROM pins)
    ORDER BY used"""


class LookUps:
    """When what was looked up, until that is written down. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at: dict[tuple[str, str | None], float] = {}
        self.since = 0.0

    def note(self, key: str, artifact: str | None) -> bool:
        """Something was looked up now (artifact: None for the schedule); whether it is time to write it down."""
        now = time.time()
        with self.lock:
            if not self.at:
                self.since = now
            self.at[key, artifact] = now
            return now - self.since > EVERY

    def write(self, c: SqlSession) -> None:
        """Write down what was looked up, within a transaction."""
        with self.lock:
            noted, self.at = self.at, {}
        # In one order, so that two who write such things down never wait for each other.
        for (key, artifact), at in sorted(noted.items(), key=lambda item: (item[0][0], item[0][1] or "")):
            if artifact is None:
                c.execute("UPDATE schedules SET used = ? WHERE key = ? AND used < ?", (at, key, at))
            else:
                c.execute(
                    "UPDATE artifacts SET used = ? WHERE key = ? AND name = ? AND used < ?", (at, key, artifact, at)
                )


def evict(c: SqlSession, excess: int) -> None:
    """Remove schedules and artifacts, the least recently used first, until `excess` bytes are free; none is pinned."""
    removed, leaving = 0, []
    for row in c.execute(OLDEST).fetchall():
        if removed >= excess:
            break
        removed += row[3]
        leaving.append(row)
    for table, key, name, *_ in leaving:
        where, given = ("key = ?", (key,)) if table == "schedules" else ("key = ? AND name = ?", (key, name))
        c.execute(f"DELETE FROM {table} WHERE {where}", given)
