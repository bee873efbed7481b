"""Every error MOSAIC raises on purpose, under one base.

The text of each is written for the person who meets it: what was wrong, what is allowed,
and what to do next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class MosaicError(Exception):
    """Base of all errors raised on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a configuration.

    Attributes:
        pointer: JSON pointer of the field ("" is the whole document).
        code: Stable code that dashboards and tests may rely on.
        message: What was given, what is allowed, the nearest valid name.
    """

    pointer: str
    code: str
    message: str

    def __str__(self) -> str:
        # Without a pointer the message itself says what it is about, such as a word that was typed.
        where = f"{self.pointer}: " if self.pointer else ""
        return f"{where}{self.message} [{self.code}]"


class InvalidConfigError(MosaicError):
    """A configuration was refused; carries every problem found, not the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(
            f"{count} problem{'s' if count != 1 else ''} in the configuration:\n{lines}"
        )


class ConfinementError(MosaicError):
    """A path tried to leave the folder it must stay in."""

    def __init__(self, path: str, root: Path) -> None:
        super().__init__(f"the path {path!r} leads outside {root}; use a relative path inside it")


class InvalidRunIdError(MosaicError):
    """A run id is not a ULID."""


class RunNotFoundError(MosaicError):
    """No run has this id or prefix."""


class RunFileError(MosaicError):
    """A file of a run cannot be read: missing, not a regular file, or outside the run."""


class InvalidArgumentError(MosaicError):
    """A request has a value that is not allowed, such as a bad regular expression."""


class FilterError(MosaicError):
    """A filter of runs cannot be understood; the text says which part."""


class AmbiguousRunError(MosaicError):
    """A prefix fits several runs."""


class RunDamagedError(MosaicError):
    """A run's event log cannot be understood; the text names the run, the event and the field."""


class EventError(MosaicError, ValueError):
    """A line of a run's log is no event; the text names the field."""


class InvalidTransitionError(MosaicError):
    """A run was asked to do what its state does not allow; the text shows its history."""


class DaemonRunningError(MosaicError):
    """Another daemon already owns this home."""


class DaemonNotRunningError(MosaicError):
    """No daemon serves this home."""


class UnreachableError(MosaicError):
    """A machine cannot be reached by ssh, or MOSAIC cannot be found there; the text says why.

    Attributes:
        final: Trying again changes nothing until a person has done something.
    """

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class NotOurDaemonError(MosaicError):
    """Something answers on the daemon's address, but it does not know this home's token."""


class AccessDeniedError(MosaicError):
    """The daemon refused the caller's token."""


class BindRefusedError(MosaicError):
    """The daemon may not or cannot listen on the address."""


class EngineSilentError(MosaicError):
    """The engine of a site does not answer now; what was asked can be asked again."""


class DaemonAwayError(MosaicError):
    """The daemon does not answer an agent now; the same can be said again."""


class AgentOverError(MosaicError):
    """The daemon needs an agent no more."""


class AgentRefusedError(MosaicError):
    """`mosaic agent` on another machine could not start an agent."""


class SlurmRefusedError(MosaicError):
    """SLURM answered, and said no."""


class RegistryVersionError(MosaicError):
    """The registry was written by a newer MOSAIC."""


class SecretError(MosaicError):
    """A secret is missing or its store is not private."""


class StorageError(MosaicError):
    """The disk refused: full, read-only, or gone."""


class ArchiveError(MosaicError):
    """An archive cannot be written, or is damaged, hostile or not ours; nothing was changed."""


class RunExistsError(ArchiveError):
    """An archive holds a run whose id another run of this home has."""


class HoldsSecretError(MosaicError):
    """A file cannot go into an archive: it is binary and holds a secret."""


class StoreVersionError(MosaicError):
    """A telemetry store was written by a newer MOSAIC."""


class StoreDamagedError(MosaicError):
    """A telemetry store cannot be read."""


class SpoolBusyError(MosaicError):
    """Another process writes a run's spool of telemetry."""


class NotRecordedError(MosaicError):
    """A run has no such episode in its telemetry store."""


class NoPicturesError(MosaicError):
    """An episode was recorded without pictures."""


class VideoToolMissingError(MosaicError):
    """A package that writes videos is not installed."""


class SessionError(MosaicError):
    """A session with a trained policy refuses what it was asked for."""


class SessionEndedError(SessionError):
    """The process with the policy is gone."""


class NoPlayerError(MosaicError):
    """No player has come to a game that a person is to play."""


class PlayConnectionError(MosaicError):
    """The connection to a game that a person plays was lost."""


class FastLaneError(MosaicError):
    """Base of what can go wrong with shared frames."""


class LaneTakenError(FastLaneError):
    """Another live process already writes this lane."""


class NoRoomForFramesError(FastLaneError):
    """Neither shared memory nor the run directory can hold the frames."""


class BadFrameError(FastLaneError):
    """A picture whose shape or type is not a frame."""


class NoFramesError(FastLaneError):
    """Nothing could be recorded because no frame came."""


class SweepBusyError(MosaicError):
    """Another process is driving this sweep."""


class WorkerContractError(MosaicError):
    """A worker broke the contract."""


class StrangerError(WorkerContractError):
    """A third party's package gave no answer, or one that makes no sense."""


class HookError(WorkerContractError):
    """A worker's hook failed; the text names the worker, the hook and the reason."""


class HandshakeRefusedError(WorkerContractError):
    """The daemon refused a worker's registration."""


class FenceError(MosaicError):
    """A helper process gave no answer; the message says what it ran into.

    Attributes:
        final: The same would happen again; a machine that was too busy is not to blame.
    """

    def __init__(self, reason: str, final: bool) -> None:
        super().__init__(reason)
        self.final = final


class StoppedError(MosaicError):
    """A program was stopped by the one who had asked for it."""


class TooManyStreamsError(MosaicError):
    """More streams are open than a small server should carry."""
