"""The operating system, seen once: processes, files that are written whole, hosts that answer."""
