"""The trainer daemon: it owns every run."""
