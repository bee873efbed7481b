"""What a mode asks the worker process to start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cleanrl_worker.config import CleanRLWorkerConfig
from mosaic.workers import Problem


@dataclass(frozen=True)
class Plan:
    """The training process of a run.

    Attributes:
        arguments: What the launcher is told: a module or file, and its flags.
        pipeline: A shell script that bash runs instead; it has no bridge.
        environment: Variables beside those of the worker process.
        obeys: Whether it pauses on request; any other is stopped by signal.
        saves: Whether it writes a checkpoint on request.
        folder: Its working directory; by default the worker's own.
        python: The interpreter, which may belong to a bundle of extras.
    """

    arguments: tuple[str, ...] = ()
    pipeline: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    obeys: bool = True
    saves: bool = False
    folder: Path | None = None
    python: str = sys.executable

    def command(self) -> list[str]:
        """The exact command line."""
        if self.pipeline is not None:
            return ["bash", str(self.pipeline)]
        return [self.python, "-m", "cleanrl_worker.launcher", *self.arguments]


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
