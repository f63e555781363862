"""Schedules and build artifacts by key: memory, SQLite, HTTP. Everything read is checked before it is returned."""
