"""The agent of one run on a machine that shares no folder with the daemon.

It dials out to the daemon, starts our supervisor beside itself, and keeps the daemon's copy of the
run directory equal to its own.
"""
