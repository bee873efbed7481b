"""Every error that this worker raises on purpose; each text is for the person who reads it."""

from mosaic.errors import MosaicError


class LlmError(MosaicError):
    """Ends the run with one sentence and a hint."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class SettingsError(LlmError):
    """The settings were refused; the text lists every problem."""


class WorldError(LlmError):
    """The environment is unknown, not installed, or cannot be put into words."""


class ModelError(LlmError):
    """The model server refuses, cannot be reached, or keeps answering nonsense."""


class RecordError(LlmError):
    """The records of the run to continue are damaged or do not fit."""
