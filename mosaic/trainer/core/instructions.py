"""What is to be done after a decision: plain data for `mosaic.trainer.launch.effects`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """Start the supervisor."""


@dataclass(frozen=True)
class PreventStart:
    """Keep a supervisor that has not started from starting."""


@dataclass(frozen=True)
class SignalGroup:
    """Send a signal to the run's process group."""

    number: int


@dataclass(frozen=True)
class KillEverything:
    """SIGKILL the group and sweep for processes that left it."""


@dataclass(frozen=True)
class SendControl:
    """Tell the worker on its control stream: `pause`, `resume` or `checkpoint`."""

    command: str


@dataclass(frozen=True)
class Archive:
    """The run is over: keep its logs, close its sessions, free the slots it held."""

    slots: tuple[str, ...] = ()


@dataclass(frozen=True)
class MoveToTrash:
    """Move the run directory to the trash."""


@dataclass(frozen=True)
class MoveBack:
    """Move the run directory out of the trash."""


Instruction = (
    Launch
    | PreventStart
    | SignalGroup
    | KillEverything
    | SendControl
    | Archive
    | MoveToTrash
    | MoveBack
)
