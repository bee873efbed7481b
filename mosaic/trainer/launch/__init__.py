"""What the daemon does to the machine: start, supervise and signal processes."""
