"""Every error this worker raises on purpose; each text is for the person who meets it."""

from __future__ import annotations


class WorkerError(Exception):
    """Ends the run with one sentence and a hint."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class SettingsError(WorkerError):
    """The configuration was refused; the text lists every problem."""


class PlanError(WorkerError):
    """A plan file has a mistake, with line and column where there is one."""


class WorldError(WorkerError):
    """The environment is unknown, not installed, or not tabular."""


class CheckpointError(WorkerError):
    """A checkpoint or policy is damaged or does not fit."""


class XmppError(WorkerError):
    """The XMPP server refused the agent, cannot be reached, or has gone."""
