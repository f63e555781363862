"""Rewrites of tile programs before they become a graph; `pipeline.py` is their order."""
