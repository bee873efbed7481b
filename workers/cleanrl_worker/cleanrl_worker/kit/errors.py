"""The two ways a script refuses to continue, both said in one sentence."""

from __future__ import annotations


class UsageError(Exception):
    """What was asked cannot be done; the message says what is allowed and how to fix it.

    Raised before training starts. The script prints the message without a traceback and
    exits with status 2.
    """


class CheckpointError(UsageError):
    """A checkpoint is damaged, unsafe, or belongs to another algorithm or environment."""


class TrainingError(Exception):
    """Training cannot continue, for example because a reward or a loss is not a number."""
