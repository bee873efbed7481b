"""What every kind of training reports: headline numbers, checkpoints, the policy, the manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mosaic.config.keeping import KeepPolicy
from mosaic.curves.names import RETURN, SPEED
from spade_bdi_rl_worker import checkpoints
from spade_bdi_rl_worker.checkpoints import Policy
from spade_bdi_rl_worker.process import WORKER, SpadeProcess
from spade_bdi_rl_worker.settings import Settings


class Snapshot(NamedTuple):
    """A run as it is now: how far it is, and everything needed to continue."""

    episode: int
    steps: int
    content: Mapping[str, object]


class Recorder:
    """Keeps the books of one run.

    Args:
        process: The run.
        settings: Its settings.
        snapshot: Gives the complete state for a checkpoint.
        policy: Gives the policy document.
    """

    def __init__(
        self,
        process: SpadeProcess,
        settings: Settings,
        snapshot: Callable[[], Snapshot],
        policy: Callable[[], Policy],
    ) -> None:
        self._process = process
        self._settings = settings
        self._snapshot = snapshot
        self._policy = policy
        self._began = time.monotonic()
        self._steps_before: int | None = None
        self._saved_at = -1
        self._first = 0
        self._keep = KeepPolicy.parse(settings.keep_checkpoints)
        self._return: float | None = None
        self._scores: dict[int, float] = {}

    def begin(self, episode: int) -> None:
        """Training begins after this episode: a resumed run has passed the marks before it."""
        self._first = episode

    def metrics(self, episode: int, steps: int, values: dict[str, float]) -> None:
        """Headline numbers; the channel itself limits them to one line a second."""
        # A resumed run has steps of its parent's time, which say nothing about its own speed.
        if self._steps_before is None:
            self._steps_before = steps
        self._return = values.get(RETURN, self._return)
        elapsed = max(1e-9, time.monotonic() - self._began)
        limit = self._settings.total_timesteps
        self._process.emit.metrics(
            steps if limit else episode,
            limit or self._settings.planned_episodes,
            {**values, "episodes": episode, SPEED: (steps - self._steps_before) / elapsed},
        )

    def save(self) -> None:
        """Write a full checkpoint and the policy, unless nothing happened since the last one."""
        episode, steps, content = self._snapshot()
        # A pause, a request and the end may all save after the same episode.
        if episode == self._saved_at:
            return
        self._saved_at = episode
        run_dir, emit = self._process.run_dir, self._process.emit
        path, digest = checkpoints.write(run_dir, f"full-{episode:010d}.json", "full", content)
        emit.checkpoint_saved(path, steps, digest, "full")
        name = checkpoints.POLICY_FILE.rpartition("/")[2]
        # One policy file, replaced each time: only the newest one is of use to `policy_eval`.
        path, digest = checkpoints.write(run_dir, name, "policy", self._policy())
        emit.checkpoint_saved(path, steps, digest, "policy")
        if self._return is not None:
            self._scores[episode] = self._return
        checkpoints.prune(run_dir, self._keep, self._scores)

    def due(self, episode: int) -> bool:
        """Whether the schedule asks for a checkpoint after this episode."""
        every = self._settings.checkpoint_every
        return (bool(every) and episode % every == 0) or self.passed_mark(episode)

    def passed_mark(self, episode: int) -> bool:
        """Whether an episode was reached that `every:N` keeps a checkpoint of."""
        every, saved = self._keep.every, max(self._saved_at, self._first)
        return bool(every) and episode // every > saved // every


def policy_document(
    settings: Settings, actions: int, table: list[list[float]], numbering: dict[str, int]
) -> Policy:
    """A policy that `policy_eval` can load."""
    return {
        "worker": WORKER,
        "env_id": settings.env_id,
        "actions": actions,
        "table": table,
        "numbering": numbering,
        "env_kwargs": settings.env_kwargs,
        "seed": settings.seed,
    }
