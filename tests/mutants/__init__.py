"""Mutants: small source edits that break an algorithm, each of which a check must notice."""
