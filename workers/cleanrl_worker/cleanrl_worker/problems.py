"""What is wrong with a run of this worker, with a pointer into its configuration."""

from mosaic.workers import Problem


def problem(field_name: str, code: str, message: str) -> Problem:
    """A problem of one of the worker's own fields."""
    return Problem(f"/metadata/worker/config/{field_name}", code, message)
