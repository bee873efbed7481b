"""What the daemon remembers: the journal, the registry, the curves."""
