"""How a client or a worker finds the daemon and proves who it is."""
