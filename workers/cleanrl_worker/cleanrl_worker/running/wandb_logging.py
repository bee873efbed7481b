"""Weights & Biases beside a run: whatever happens to it, training never waits for it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Full, Queue
from typing import Protocol, TypeVar, cast

from cleanrl_worker.running.bridge import Bridge
from mosaic.system.web import unreachable

# More than a run logs while W&B finds out whether its host can be reached.
_MOST_WAITING = 100_000
_DEFAULT_PATIENCE_S = 10.0
# Beyond the time W&B itself was given: its own limits are not exact.
_GRACE_S = 5.0

# Beside W&B's own folders, which it makes in `wandb/` too.
ADDRESS_FILE = "wandb/address.json"

Opened = TypeVar("Opened")


class _WandbRun(Protocol):
    """What is used of `wandb.Run`; the package is optional and imported late."""

    def log(self, values: Mapping[str, float]) -> object: ...

    def finish(self) -> object: ...


class WandbLogger:
    """Gives numbers to W&B on a thread of its own; continues offline when its host is away."""

    def __init__(
        self,
        bridge: Bridge,
        project: str,
        entity: str | None,
        run_dir: Path,
        config: Mapping[str, object],
    ) -> None:
        self._bridge = bridge
        self._options: dict[str, object] = {
            "project": project,
            "entity": entity,
            "name": os.environ.get("WANDB_NAME") or run_dir.name,
            "dir": str(run_dir),
            "config": config,
            "resume": "allow",
        }
        self._waiting: Queue[Mapping[str, float] | None] = Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()

    def log(self, values: Mapping[str, float]) -> None:
        """Pass numbers on; returns at once."""
        try:
            self._waiting.put_nowait(values)
        except Full:
            # W&B has stalled for a hundred thousand updates: training is worth more.
            pass

    def finish(self) -> None:
        """Let W&B write what is left, for a limited time."""
        # After everything that waits: the thread writes all of it before it sees the end.
        self._waiting.put(None)
        patience = _seconds("WANDB_INIT_TIMEOUT") + _seconds("WANDB_FINISH_TIMEOUT")
        self._thread.join(timeout=patience + _GRACE_S)
        if self._thread.is_alive():
            print("W&B did not finish in time; the run ends without it", file=sys.stderr)

    def _work(self) -> None:
        try:
            run = self._open()
            while (values := self._waiting.get()) is not None:
                run.log(values)
            run.finish()
        except Exception as error:
            # Tracking is an extra: a run without it is worth more than no run.
            print(f"W&B is not available, training continues without it: {error}", file=sys.stderr)

    def _open(self) -> _WandbRun:
        import wandb

        return cast(_WandbRun, init_or_offline(wandb.init, self._bridge, self._options))


def init_or_offline(
    init: Callable[..., Opened], bridge: Bridge, options: Mapping[str, object]
) -> Opened:
    """Open a W&B run; one whose host does not answer is written to the run directory only.

    The host is asked first: an attempt that fails halfway leaves W&B waiting for it at the end.

    Args:
        init: `wandb.init`.
        bridge: Where to say that W&B is offline.
        options: What `init` is called with.
    """
    mode = options.get("mode") or os.environ.get("WANDB_MODE") or "online"
    if mode != "online":
        if not os.environ.get("WANDB_API_KEY"):
            _tell_offline(bridge, "no key is known; set WANDB_API_KEY, or run `wandb sync` later")
        return init(**options)
    if reason := _host_problem():
        _tell_offline(bridge, reason)
        return init(**{**options, "mode": "offline"})
    try:
        opened = init(**options)
        _note_address(opened, Path(str(options.get("dir") or ".")))
        return opened
    except Exception as error:
        _tell_offline(bridge, str(error))
        # The failed attempt still holds the run's own id.
        run_id = f"{os.environ.get('WANDB_RUN_ID', 'run')}-offline"
        return init(**{**options, "mode": "offline", "id": run_id})


def _note_address(run: object, folder: Path) -> None:
    """Write down where W&B shows the run, which only W&B knows: team, server and id are its own."""
    names = {"url": "url", "entity": "entity", "project": "project", "run_id": "id"}
    facts = {key: getattr(run, name, None) for key, name in names.items()}
    if not facts["url"]:
        return
    target = folder / ADDRESS_FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: the window reads it while the run continues.
    part = target.with_suffix(".part")
    part.write_text(json.dumps({key: str(value) for key, value in facts.items() if value}))
    part.replace(target)


def _host_problem() -> str:
    """Why W&B's host does not answer; empty when it does."""
    proxies = {
        scheme: address
        for scheme in ("http", "https")
        if (address := os.environ.get(f"WANDB_{scheme.upper()}_PROXY"))
    }
    url = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return unreachable(url, _seconds("WANDB_INIT_TIMEOUT"), proxies or None)


def _tell_offline(bridge: Bridge, error: str) -> None:
    reason = " ".join(error.split())[:200]
    text = f"W&B is offline, its data stays in the run directory: {reason}"
    print(text, file=sys.stderr, flush=True)
    bridge.send("note", text=text, wandb="offline")


def _seconds(variable: str) -> float:
    try:
        return float(os.environ.get(variable, ""))
    except ValueError:
        return _DEFAULT_PATIENCE_S
