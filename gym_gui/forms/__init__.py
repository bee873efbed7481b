"""Forms that make a run: train, resume, evaluate, script, and one for any other worker."""
