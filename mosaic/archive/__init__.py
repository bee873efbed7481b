"""Runs as one file: what is in an archive, writing it, and reading it without trusting it."""
