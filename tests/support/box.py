"""One more machine for runs: an account of this one with a home of its own, behind a real sshd."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.agent.folder import FOLDER
from mosaic.connect.remote_home import SSH_VARIABLE
from mosaic.system.processes import marked_processes

from .sshd import Sshd, command_of, sshd_at
from .trainer import Trainer
from .wire import Wire

MakeTrainer = Callable[..., Trainer]


@dataclass
class Box:
    """The other machine: an account with a home of its own, reached by ssh alone."""

    sshd: Sshd
    home: Path
    lab: Trainer

    @property
    def site(self) -> str:
        return self.sshd.address(self.home)

    def start(self, *arguments: str, **extra: str) -> None:
        """Start the daemon that sends its runs here."""
        self.lab.start(*arguments, **{SSH_VARIABLE: self.sshd.command(), **extra})

    def submit(self, behaviour: str, **fields: Any) -> str:
        return self.lab.submit(behaviour, site=self.site, **fields)

    def stepping(self, behaviour: str = "steady", **fields: Any) -> str:
        return self.lab.stepping(behaviour, site=self.site, **fields).run_id

    def agents(self, run_id: str) -> list[int]:
        """The agents of a run that are alive."""
        return [pid for pid in self.lab.processes() if command_of(pid)[-2:] == [run_id, ""]]

    def doors(self) -> list[int]:
        """What ssh connections have started on the machine and is alive."""
        return [pid for pid in self.lab.processes() if command_of(pid)[-2:] == ["agent", ""]]

    def is_clean(self, run_id: str) -> bool:
        """Whether nothing of a run is left on the machine."""
        folder = self.home / FOLDER / run_id
        return not self.agents(run_id) and not marked_processes(run_id) and not folder.exists()


def box_at(
    root: Path,
    lab: Trainer,
    variables: Mapping[str, str] | None = None,
    wire: Wire | None = None,
) -> Iterator[Box]:
    """The other machine, and a daemon that knows the way there.

    Args:
        root: Where its files are.
        lab: The daemon, which is started.
        variables: More of the environment of the sessions there.
        wire: The network between the two; None for this machine's own.
    """
    folder = root / "sshd"
    folder.mkdir()
    own = {key: val for key, val in lab.environment().items() if key == "PYTHONPATH"}
    with sshd_at(folder, {**own, **(variables or {})}, wire) as server:
        box = Box(server, root / "other", lab)
        box.start()
        yield box
