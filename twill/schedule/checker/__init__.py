"""The independent checker of schedules: every rule of docs/model.md."""
