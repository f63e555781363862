"""Schedules under version control: the lock file, and what became better or worse."""
