"""Environments that change while the training loop goes on."""
