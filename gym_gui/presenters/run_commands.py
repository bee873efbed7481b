"""What can be done with runs: sent to the daemon, shown at once, reported when it fails."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.models.health import source_step
from gym_gui.models.launch import Launch
from gym_gui.models.notices import Notice
from gym_gui.services import Services
from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError, Problem
from mosaic.presenting.formatting import split_tags
from mosaic.presenting.run_status import (
    can_cancel,
    can_delete,
    can_pause,
    can_resume,
    can_save,
    pending_id,
    title_of,
)
from mosaic.records import RunRecord
from mosaic.workers.algorithms import worker_of
from mosaic.workers.discovery import discover

Refused = Callable[[list[Problem]], None]


@dataclass
class _Batch:
    """Runs that were asked for together.

    Attributes:
        link: The daemon that they go to.
        refused: Shows what is wrong with them.
        waiting: Those that are not sent yet, by the id of their pending row.
        sent: The ids of those that are.
    """

    link: DaemonLink
    refused: Refused | None
    waiting: dict[str, Launch] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)


class RunCommands:
    """Acts on runs through the daemon."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._deleted: list[tuple[DaemonLink, str]] = []
        self._pending = 0

    # ------------------------------------------------------------ making runs

    def submit(self, launches: Sequence[Launch], refused: Refused | None = None) -> None:
        """Send runs, one after the other and in this order; each shows at once as a pending row.

        They go to the daemon in front. What continues or evaluates a run goes where that run is:
        its checkpoints are there. They are selected together when the last one is there. If one is
        refused, none of those after it is sent.
        """
        parent = next((one.parent for one in launches if one.parent), "")
        batch = _Batch(self._services.link_of(parent), refused)
        for launch in launches:
            # Shown before the daemon answers: a press of the button is never without effect.
            self._pending += 1
            key = pending_id(self._pending)
            self._services.store.put(pending_run(key, launch.config))
            batch.waiting[key] = launch
        if len(launches) < 2:
            self._send_next(batch)
            return
        # Half an experiment is worth nothing: what would be refused is refused before the first
        # is sent. Other seeds of a configuration cannot be refused for another reason.
        first_seed = launches[0].config.worker.seed
        judged = [one.config for one in launches if one.config.worker.seed == first_seed]
        batch.link.ask(
            lambda client: [problem for one in judged for problem in client.validate(one)],
            lambda problems: self._on_validated(batch, problems),
            lambda error: self._give_up(batch, error),
        )

    def _on_validated(self, batch: "_Batch", problems: list[Problem]) -> None:
        if problems:
            self._give_up(batch, InvalidConfigError(list(dict.fromkeys(problems))))
        else:
            self._send_next(batch)

    def _send_next(self, batch: "_Batch") -> None:
        if not batch.waiting:
            self._services.selection.select(tuple(batch.sent))
            return
        key, launch = next(iter(batch.waiting.items()))

        def done(run: RunRecord) -> None:
            del batch.waiting[key]
            batch.sent.append(run.run_id)
            self._services.store.drop(key)
            self._services.store.put(run, batch.link.name)
            self._send_next(batch)

        parent = self._services.store.get(launch.parent) if launch.parent else None
        step = source_step(parent, launch.config)
        batch.link.ask(
            lambda client: client.submit(
                launch.config, parent_run_id=launch.parent, parent_step=step
            ),
            done,
            lambda error: self._give_up(batch, error),
        )

    def _give_up(self, batch: "_Batch", error: Exception) -> None:
        for key in batch.waiting:
            self._services.store.drop(key)
        if isinstance(error, InvalidConfigError) and batch.refused is not None:
            batch.refused(list(error.problems))
        else:
            self._services.notices.error("The run was not started", error)
        if batch.sent:
            self._services.selection.select(tuple(batch.sent))

    def again(self, runs: Iterable[RunRecord]) -> None:
        """Submit the same configs once more."""
        for run in runs:
            self.with_config(run, partial(self._again, run.run_id))

    def _again(self, parent: str, config: TrainRunConfig) -> None:
        self.submit([Launch(config, parent)])

    def with_config(self, run: RunRecord, then: Callable[[TrainRunConfig], None]) -> None:
        """Ask for a run's config, as it was submitted, and hand it on."""
        self._services.link_of(run.run_id).ask(
            lambda client: build.read_config(client.config(run.run_id)),
            then,
            lambda error: self._services.notices.error("The run's config could not be read", error),
        )

    # ------------------------------------------------------------ steering runs

    def pause(self, runs: Iterable[RunRecord]) -> None:
        """Pause running runs at their next safe point."""
        self._each(TrainerClient.pause, "Not paused", filter(can_pause, runs))

    def resume(self, runs: Iterable[RunRecord]) -> None:
        """Resume paused runs."""
        self._each(TrainerClient.resume, "Not resumed", filter(can_resume, runs))

    def cancel(self, runs: Iterable[RunRecord]) -> None:
        """Cancel runs that have not ended."""
        self._each(TrainerClient.cancel, "Not cancelled", filter(can_cancel, runs))

    def save(self, runs: Iterable[RunRecord]) -> None:
        """Ask runs to save a checkpoint now."""
        for run in filter(can_save, runs):
            self._services.link_of(run.run_id).ask(
                partial(_checkpoint, run_id=run.run_id),
                partial(self._asked_to_save, title_of(run)),
                lambda error: self._services.notices.error("No checkpoint was saved", error),
            )

    def _asked_to_save(self, title: str, run: RunRecord) -> None:
        self._services.store.put(run)
        self._services.notices.info(f"{title} saves a checkpoint at its next safe point")

    def edit(self, run_id: str, what: str, text: str) -> None:
        """Change one thing that people wrote about a run: its name, tags or notes."""
        if what == "tags":
            self.update(run_id, tags=split_tags(text))
        elif what == "notes":
            self.update(run_id, notes=text)
        else:
            self.update(run_id, run_name=text)

    def update(
        self,
        run_id: str,
        *,
        run_name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> None:
        """Change what people wrote about a run; what is None stays as it is."""
        self._services.link_of(run_id).ask(
            lambda client: client.update(run_id, run_name=run_name, notes=notes, tags=tags),
            self._services.store.put,
            lambda error: self._services.notices.error("Not saved", error),
        )

    def delete(self, runs: Iterable[RunRecord]) -> None:
        """Move ended runs to the trash; a notice offers to undo it."""
        chosen = [run for run in runs if can_delete(run)]
        # Only the last deletion can be undone here; the trash itself keeps the others.
        if chosen:
            self._deleted = [(self._services.link_of(run.run_id), run.run_id) for run in chosen]
        for run in chosen:
            self._services.link_of(run.run_id).ask(
                partial(_delete, run_id=run.run_id),
                self._services.store.drop,
                lambda error: self._services.notices.error("Not deleted", error),
            )
        if not chosen:
            return
        text = f"Moved {_what(chosen)} to the trash"
        self._services.notices.say(Notice("info", text, "", "Undo", self.undo_delete))

    @property
    def can_undo(self) -> bool:
        """Whether something was deleted."""
        return bool(self._deleted)

    def undo_delete(self) -> None:
        """Restore what was deleted last."""
        deleted, self._deleted = self._deleted, []
        back: list[RunRecord] = []

        def restored(daemon: str, run: RunRecord) -> None:
            self._services.store.put(run, daemon=daemon)
            back.append(run)
            # Said in place of the notice that offers to undo it, which would do nothing more.
            if len(back) == len(deleted):
                self._services.notices.info(f"Restored {_what(back)}")

        for link, run_id in deleted:
            link.ask(
                partial(_restore, run_id=run_id),
                partial(restored, link.name),
                lambda error: self._services.notices.error("Not restored", error),
            )

    def _each(
        self,
        command: Callable[[TrainerClient, str], RunRecord],
        otherwise: str,
        runs: Iterable[RunRecord],
    ) -> None:
        for run in runs:
            self._services.link_of(run.run_id).ask(
                partial(_command, command=command, run_id=run.run_id),
                self._services.store.put,
                lambda error: self._services.notices.error(otherwise, error),
            )


def _command(
    client: TrainerClient, command: Callable[[TrainerClient, str], RunRecord], run_id: str
) -> RunRecord:
    return command(client, run_id)


def _checkpoint(client: TrainerClient, run_id: str) -> RunRecord:
    return client.checkpoint(run_id)


def _delete(client: TrainerClient, run_id: str) -> str:
    client.delete(run_id)
    return run_id


def _restore(client: TrainerClient, run_id: str) -> RunRecord:
    return client.restore(run_id)


def _what(runs: Sequence[RunRecord]) -> str:
    return title_of(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"


def read_config(path: Path) -> TrainRunConfig:
    """A config file of the user's, nested or flat.

    Raises:
        OSError: It cannot be read.
        InvalidConfigError: It is not a config.
    """
    return build.read_config(path.read_bytes(), lambda algo: worker_of(algo, discover()))


def pending_run(run_id: str, config: TrainRunConfig) -> RunRecord:
    """A row for a run that the daemon has not confirmed yet."""
    return RunRecord(
        run_id=run_id,
        run_name=config.run_name,
        worker=config.metadata.worker.type,
        algo=config.worker.algo,
        env_id=config.worker.env_id,
        seed=config.worker.seed,
        created_at=time.time(),
    )
