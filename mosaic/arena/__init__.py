"""Agents of different kinds on the same seeds: what they play and the tables that compare them."""
