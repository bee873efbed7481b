"""The workbench in a browser: a process of its own, a client of the SDK like the window.

Pages are rendered here; one small script keeps them up to date over server-sent events. It serves
this machine alone, to browsers that were let in with a one-time address (`access`).
"""
