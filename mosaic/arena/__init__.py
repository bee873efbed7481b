"""Agents of different kinds on the same seeds: who plays, what they scored, and the table."""
