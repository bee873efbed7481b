"""How a client or a worker finds the daemon, reaches it and proves who it is.

`endpoint` is the only reader and writer of `daemon.json`, `channel` the only opener of gRPC
channels, `certificate` checks what a daemon is asked to show, `auth` knows tokens and keys.
"""
