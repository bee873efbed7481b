"""Weights & Biases beside a run: whatever happens to it, training never waits for it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from queue import Full, Queue
from typing import Any

from cleanrl_worker.kit.bridge import Bridge

# More than a run logs while W&B makes up its mind whether its host can be reached.
_MOST_WAITING = 100_000
_DEFAULT_PATIENCE_S = 10.0


class Tracker:
    """Hands numbers to W&B on a thread of its own; goes on offline when its host is away."""

    def __init__(
        self,
        bridge: Bridge,
        project: str,
        entity: str | None,
        run_dir: Path,
        config: dict[str, Any],
    ) -> None:
        self._bridge = bridge
        self._options = {
            "project": project,
            "entity": entity,
            "name": os.environ.get("WANDB_NAME") or run_dir.name,
            "dir": str(run_dir),
            "config": config,
            "resume": "allow",
        }
        self._waiting: Queue[dict[str, Any] | None] = Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()

    def log(self, values: dict[str, Any]) -> None:
        """Pass numbers on; returns at once."""
        try:
            self._waiting.put_nowait(values)
        except Full:
            pass

    def finish(self) -> None:
        """Give W&B a little time to write what is left, then go."""
        self._waiting.put(None)
        patience = _seconds("WANDB_INIT_TIMEOUT") + _seconds("WANDB_FINISH_TIMEOUT")
        self._thread.join(timeout=patience + 5.0)
        if self._thread.is_alive():
            print("W&B did not finish in time; the run goes on without it", file=sys.stderr)

    def _work(self) -> None:
        try:
            run = self._open()
            while (values := self._waiting.get()) is not None:
                run.log(values)
            run.finish()
        except Exception as error:
            # Tracking is an extra: a run without it is worth more than no run.
            print(f"W&B is not available, training goes on without it: {error}", file=sys.stderr)

    def _open(self) -> Any:
        import wandb

        try:
            return wandb.init(**self._options)
        except Exception as error:
            tell_offline(self._bridge, error)
            return wandb.init(**self._options, mode="offline")


def tell_offline(bridge: Bridge, error: Exception) -> None:
    """Say that W&B writes to the run directory only."""
    reason = " ".join(str(error).split())[:200]
    text = f"W&B is offline, its data stays in the run directory: {reason}"
    print(text, file=sys.stderr, flush=True)
    bridge.send("note", text=text, wandb="offline")


def _seconds(variable: str) -> float:
    try:
        return float(os.environ.get(variable, ""))
    except ValueError:
        return _DEFAULT_PATIENCE_S
