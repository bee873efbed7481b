"""This folder goes on PYTHONPATH; see `sitecustomize`."""
