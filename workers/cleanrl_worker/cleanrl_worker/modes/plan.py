"""What a mode asks the worker process to start."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cleanrl_worker.config import CleanRLWorkerConfig
from mosaic.config.flags import as_words, flag_of
from mosaic.config.json_types import JsonValue
from mosaic.workers import Problem


@dataclass(frozen=True)
class Plan:
    """The training process of a run.

    Attributes:
        target: What the launcher runs: a module or a file.
        values: Its arguments, by name.
        takes_values: Whether it accepts them as values (`running.handover`); upstream's scripts,
            which know nothing of us, read flags.
        spells_truth: Whether its switches take a word, as those of `argparse` scripts do.
        pipeline: A shell script that bash runs instead; it has no bridge.
        pipeline_text: What to write there first; empty for a script that exists.
        events: Where the event file of a whole pipeline goes.
        environment: Variables beside those of the worker process.
        obeys: Whether it pauses on request; any other is stopped by signal.
        saves: Whether it writes a checkpoint on request.
        first_step: The step it continues from; 0 where it begins.
        folder: Its working directory; by default the worker's own.
        python: The interpreter, which may belong to a bundle of extras.
    """

    target: str = ""
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    takes_values: bool = False
    spells_truth: bool = False
    pipeline: Path | None = None
    pipeline_text: str = ""
    events: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    obeys: bool = True
    saves: bool = False
    first_step: int = 0
    folder: Path | None = None
    python: str = sys.executable

    def command(self) -> list[str]:
        """The command line with which a person starts exactly this process."""
        if self.pipeline is not None:
            return ["bash", str(self.pipeline)]
        return [*self._launcher, *self.words()]

    def start_command(self) -> list[str]:
        """The command line with which the worker starts it, where values are handed over."""
        return [*self._launcher, *self.start_words()]

    def words(self) -> list[str]:
        """The arguments as flags."""
        return [word for name, value in self.values.items() for word in self._spelled(name, value)]

    def _spelled(self, name: str, value: JsonValue) -> list[str]:
        if self.spells_truth and isinstance(value, bool):
            return [flag_of(name), str(value)]
        return as_words(name, value)

    def start_words(self) -> list[str]:
        """The flags that the target is started with: none where it takes values."""
        return [] if self.takes_values else self.words()

    @property
    def _launcher(self) -> tuple[str, ...]:
        return (self.python, "-m", "cleanrl_worker.launcher", self.target)


class Mode(Protocol):
    """One way of using the worker; each is a module of this package."""

    def complete(self, config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
        """Fill in what the mode knows by itself; what is wrong is left for `problems`."""

    def problems(
        self, config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
    ) -> Iterator[Problem]:
        """What is wrong with this mode's own settings."""

    def plan(self, config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
        """What to start."""
