"""The pages for people: queue, submission, job, schedule, search. HTML from the server; scripts only add to it."""

from .routes import pages

__all__ = ["pages"]
