"""What the daemon does all day: take runs in, watch them, recover them, keep the house in order."""
