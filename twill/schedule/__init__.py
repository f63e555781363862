"""The schedule document, its file, its key, and its checker."""
