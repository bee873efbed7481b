"""Environments in words: what the agent reads in place of arrays."""
