"""The commands on their way to workers: one queue for each open control stream."""

import asyncio

from mosaic.trainer.core.states import Run, State


class ControlStreams:
    """Queues of commands by run."""

    def __init__(self) -> None:
        self._queues: dict[str, asyncio.Queue[str]] = {}

    def open(self, run: Run) -> "asyncio.Queue[str]":
        """The commands for a worker's new stream, with those it may have missed.

        A worker reconnects after every restart of the daemon. What was sent on the old stream
        may never have arrived, so everything that still awaits its answer is said again.
        """
        commands: asyncio.Queue[str] = asyncio.Queue()
        self._queues[run.run_id] = commands
        if run.pausing and not run.resuming and run.state is State.EXEC:
            commands.put_nowait("pause")
        # A worker that was killed in its pause and started again knows nothing of it.
        if run.state is State.PAUSE and not run.resuming and not run.pause_by_signal:
            commands.put_nowait("pause")
        if run.resuming and run.slots and not run.pause_by_signal:
            commands.put_nowait("resume")
        if run.checkpointing:
            commands.put_nowait("checkpoint")
        return commands

    def send(self, run_id: str, command: str) -> None:
        """Tell a worker something; without a stream it is said when the next one opens."""
        commands = self._queues.get(run_id)
        if commands is not None:
            commands.put_nowait(command)

    def close(self, run_id: str, commands: "asyncio.Queue[str] | None" = None) -> None:
        """The stream ended, or with no `commands` its run did.

        An old stream may end after its worker has opened the next one, which must stay.
        """
        if commands is None or self._queues.get(run_id) is commands:
            self._queues.pop(run_id, None)
