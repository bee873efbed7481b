"""Experiments: configurations × seeds (× environments × algorithms) as one thing.

An experiment is the set of runs that carry the tag `experiment=NAME`. Tags are part of a run's
event log, so an experiment survives whatever its runs survive: a restart, a lost registry, an
archive. It needs no document of its own: its configurations are those of its runs.
"""
