"""The model server that comes with the worker, for machines without one."""
