"""Environments that change while the training loop runs."""
