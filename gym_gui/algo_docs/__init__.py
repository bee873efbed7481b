"""What the help panel says about each algorithm."""
