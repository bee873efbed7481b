"""What can be done with runs: sent to the daemon, shown at once, reported when it fails."""

import copy
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gym_gui.models.notices import Notice
from gym_gui.models.run_status import (
    Record,
    can_cancel,
    can_delete,
    can_pause,
    can_resume,
    title_of,
)
from gym_gui.models.tags import split_tags
from gym_gui.services import Services
from mosaic.config.validation import nest
from mosaic.errors import InvalidConfigError

Refused = Callable[[list[Any]], None]
_UNKNOWN_YET = (
    "outcome", "reason", "wait_reason", "pid", "exit_code", "started_at", "finished_at",
    "last_heartbeat", "stopping", "parent_run_id",
)  # fmt: skip


class RunCommands:
    """Acts on runs through the daemon."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._deleted: list[str] = []
        self._pending = 0

    # ------------------------------------------------------------ making runs

    def submit(
        self, configs: list[dict[str, Any]], parent: str = "", refused: Refused | None = None
    ) -> None:
        """Send configs; each shows at once as a pending row."""
        for config in configs:
            self._submit_one(config, parent, refused)

    def _submit_one(self, config: dict[str, Any], parent: str, refused: Refused | None) -> None:
        self._pending += 1
        key = f"pending-{self._pending}"
        store, notices = self._services.store, self._services.notices
        store.add_pending(_pending_record(key, config))

        def done(run: dict[str, Any]) -> None:
            store.drop(key)
            store.put(run)
            self._services.selection.select((run["run_id"],))

        def failed(error: Exception) -> None:
            store.drop(key)
            if isinstance(error, InvalidConfigError) and refused is not None:
                refused(list(error.problems))
            else:
                notices.error("The run was not started", error)

        self._services.link.call("submit", config, parent_run_id=parent, done=done, failed=failed)

    def again(self, runs: Iterable[Record]) -> None:
        """Submit the same configs once more."""
        for run in runs:
            self.with_config(
                run, lambda config, run_id=run["run_id"]: self._submit_one(config, run_id, None)
            )

    def with_config(self, run: Record, then: Callable[[dict[str, Any]], None]) -> None:
        """Read a run's config, as it was submitted, and go on with it."""
        path = Path(run["run_dir"]) / "config.json"

        def failed(error: Exception) -> None:
            self._services.notices.error("The run's config could not be read", error)

        self._services.link.calls.run(lambda: read_config(path), then, failed)

    # ------------------------------------------------------------ steering runs

    def pause(self, runs: Iterable[Record]) -> None:
        """Stop at the next safe point."""
        self._each("pause", "Pausing", filter(can_pause, runs))

    def resume(self, runs: Iterable[Record]) -> None:
        """Let go on."""
        self._each("resume", "Resuming", filter(can_resume, runs))

    def cancel(self, runs: Iterable[Record]) -> None:
        """End."""
        self._each("cancel", "Cancelling", filter(can_cancel, runs))

    def edit(self, run_id: str, what: str, text: str) -> None:
        """Change one thing that people wrote about a run: its name, tags or notes."""
        if what == "tags":
            self.update(run_id, tags=split_tags(text))
        elif what == "notes":
            self.update(run_id, notes=text)
        else:
            self.update(run_id, run_name=text)

    def update(self, run_id: str, **changes: Any) -> None:
        """Change what people wrote about a run: `run_name`, `notes`, `tags`."""
        self._services.link.call(
            "update",
            run_id,
            **changes,
            done=self._services.store.put,
            failed=lambda error: self._services.notices.error("Not stored", error),
        )

    def delete(self, runs: Iterable[Record]) -> None:
        """Move ended runs to the trash; a notice offers to take it back."""
        chosen = [run for run in runs if can_delete(run)]
        for run in chosen:
            run_id = run["run_id"]
            self._services.link.call(
                "delete",
                run_id,
                done=lambda _none, name=run_id: self._services.store.drop(name),
                failed=lambda error: self._services.notices.error("Not deleted", error),
            )
        if not chosen:
            return
        self._deleted = [run["run_id"] for run in chosen]
        what = title_of(chosen[0]) if len(chosen) == 1 else f"{len(chosen)} runs"
        self._services.notices.say(
            Notice("info", f"Moved {what} to the trash", "", "Undo", self.undo_delete)
        )

    @property
    def can_undo(self) -> bool:
        """Whether something was deleted."""
        return bool(self._deleted)

    def undo_delete(self) -> None:
        """Take back the last delete."""
        ids, self._deleted = self._deleted, []
        for run_id in ids:
            self._services.link.call(
                "restore",
                run_id,
                done=self._services.store.put,
                failed=lambda error: self._services.notices.error("Not restored", error),
            )

    def _each(self, method: str, doing: str, runs: Iterable[Record]) -> None:
        for run in runs:
            self._services.link.call(
                method,
                run["run_id"],
                done=self._services.store.put,
                failed=lambda error: self._services.notices.error(doing, error),
            )


def read_config(path: Path) -> dict[str, Any]:
    """A config file in the nested shape.

    Raises:
        ValueError: It is no config.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is no config: it holds a {type(document).__name__}")
    nested = nest(document)
    if "metadata" not in nested:
        raise ValueError(f"{path.name} is no config: it has neither metadata nor algo and env_id")
    return copy.deepcopy(nested)


def _pending_record(key: str, config: dict[str, Any]) -> dict[str, Any]:
    """A row for a run that the daemon has not confirmed yet."""
    worker = nest(config)["metadata"]["worker"]
    inner = worker["config"]
    progress = {"step": 0, "total": 0, "fraction": 0.0, "sps": 0.0, "eta_s": 0.0}
    empty: dict[str, Any] = dict.fromkeys(_UNKNOWN_YET)
    return {
        **empty,
        "run_id": key,
        "run_name": config.get("run_name", ""),
        "worker": worker["type"],
        "algo": inner.get("algo", ""),
        "env_id": inner.get("env_id", ""),
        "seed": inner.get("seed"),
        "state": "INIT",
        "slots": [],
        "progress": progress,
        "metrics": {},
        "created_at": time.time(),
        "run_dir": "",
        "checkpoints": [],
        "capabilities": {},
        "stalled": False,
        "tags": [],
        "notes": "",
        "version": 0,
        "mode": "",
    }
