"""What is to be done after a decision: plain data for `mosaic.trainer.launch.effects`."""

from mosaic.trainer.core.value import value


@value
class Launch:
    """Start the supervisor."""


@value
class PreventStart:
    """Keep a supervisor that has not started from starting."""


@value
class Withdraw:
    """Take a job that has not begun back from the engine of its site."""


@value
class SignalGroup:
    """Send a signal to the run's process group."""

    number: int


@value
class KillEverything:
    """SIGKILL the group and sweep for processes that left it."""


@value
class SendControl:
    """Tell the worker on its control stream: `pause`, `resume` or `checkpoint`."""

    command: str


@value
class PinCheckpoint:
    """Keep a checkpoint of the run, whatever its policy removes."""

    path: str


@value
class Archive:
    """The run is over: keep its logs, close its sessions, free the slots it held."""

    slots: tuple[str, ...] = ()


@value
class MoveToTrash:
    """Move the run directory to the trash."""


@value
class MoveBack:
    """Move the run directory out of the trash."""


Instruction = (
    Launch
    | PreventStart
    | Withdraw
    | SignalGroup
    | KillEverything
    | SendControl
    | PinCheckpoint
    | Archive
    | MoveToTrash
    | MoveBack
)
