"""The operating system, seen once: processes and files that are written whole."""
