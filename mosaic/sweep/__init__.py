"""Sweeps: Optuna proposes settings, every trial is ordinary runs of the daemon.

What to propose, when to prune and what a finished run is worth are decided without I/O (`space`,
`objective`, `plan`); `study` is the Optuna file, `runner` the daemon's client.
"""
