"""Scripts that know nothing of MOSAIC: what they tell their summary writer and W&B reaches us too.

Nothing of the script is changed. Two functions of libraries it may import are wrapped right after
their import: `SummaryWriter.add_scalar`, whose numbers become the run's metrics, and `wandb.init`,
which continues offline instead of failing when its host is away.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import SupportsFloat

from cleanrl_worker.running.bridge import METRICS, Bridge
from cleanrl_worker.running.logger import EndedEpisodes, metric_writer
from cleanrl_worker.running.wandb_logging import init_or_offline
from mosaic.curves.names import EPISODES, LAST_EPISODES, LENGTH, RETURN, TAGS, name_of

# As often as our own scripts report.
_INTERVAL_S = 1.0
_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer", "tensorboardX")


def wait_for_go() -> Bridge:
    """The bridge, once the worker has shaken hands; at once without a worker."""
    bridge = Bridge()
    while bridge.connected:
        commands = bridge.wait()
        if "go" in commands or not commands:
            break
    return bridge


def listen_to_summary_writers(bridge: Bridge, total: int) -> None:
    """Report every scalar a `SummaryWriter` is given, at most once a second."""
    collector = _Collector(bridge, total)
    when_imported(_WRITERS, lambda module: _wrap_writer(module, collector))


def spare_wandb(bridge: Bridge) -> None:
    """Let a script whose W&B cannot be reached continue offline instead of failing."""

    def wrap(module: ModuleType) -> None:
        original: Callable[..., object] = module.init

        @functools.wraps(original)
        def init(**options: object) -> object:
            return init_or_offline(original, bridge, options)

        setattr(module, "init", init)  # noqa: B010

    if os.environ.get("WANDB_RUN_ID"):
        when_imported(("wandb",), wrap)


def track_offline(arguments: Sequence[str]) -> None:
    """Let `--track` work without a key: what is tracked stays on this machine."""
    asked = "--track" in arguments
    # A key of `wandb login` is in the file that programs read passwords from.
    known = os.environ.get("WANDB_API_KEY") or (Path.home() / ".netrc").exists()
    if asked and not known and "WANDB_MODE" not in os.environ:
        os.environ["WANDB_MODE"] = "offline"
        print("no W&B key: --track stays offline; set WANDB_API_KEY to sync", file=sys.stderr)


class _Collector:
    """Merges scalars into headline metrics and keeps the full curves."""

    def __init__(self, bridge: Bridge, total: int) -> None:
        self._bridge = bridge
        self._total = total
        self._values: dict[str, float] = {}
        self._ended: EndedEpisodes = {"count": 0, "steps": 0, "returns": 0.0}
        self._newest: dict[str, deque[float]] = {
            name: deque(maxlen=LAST_EPISODES) for name in (RETURN, LENGTH)
        }
        self._finished = 0
        self._sent_at = 0.0
        self._step = 0
        self._metrics = metric_writer()

    def scalar(self, tag: str, value: object, step: object) -> None:
        """Note one scalar; what is not a number is the writer's own business."""
        number, at = _number(value), _number(step or 0)
        if number is None or at is None:
            return
        self._step = max(self._step, int(at))
        name = name_of(tag) if math.isfinite(number) else None
        shown = number if name is None else self._smoothed(name, number)
        if self._metrics is not None:
            self._metrics.add(tag, int(at), shown)
        if name is None:
            return
        self._values[name] = shown
        if name == RETURN:
            self._count_episode(int(at), number)
        elif name == LENGTH:
            self._ended["steps"] += int(number)
        if time.monotonic() - self._sent_at >= _INTERVAL_S:
            self.send()

    def _count_episode(self, step: int, total: float) -> None:
        """An episode ended: every one writes its return once."""
        self._ended["count"] += 1
        self._ended["returns"] += total
        self._finished += 1
        self._values[EPISODES] = self._finished
        if self._metrics is not None:
            self._metrics.add(TAGS[EPISODES], step, self._finished)

    def _smoothed(self, name: str, number: float) -> float:
        """The mean over the newest episodes for what an episode has one of; else the number."""
        newest = self._newest.get(name)
        if newest is None:
            return number
        newest.append(number)
        return fmean(newest)

    def send(self) -> None:
        """Report what has been collected."""
        if self._values:
            self._sent_at = time.monotonic()
            self._bridge.send(
                METRICS,
                step=self._step,
                total=self._total,
                values=dict(self._values),
                ended=self._ended,
            )
            self._ended = {"count": 0, "steps": 0, "returns": 0.0}

    def close(self) -> None:
        """Report what is left."""
        self.send()
        if self._metrics is not None:
            self._metrics.flush()


def _number(value: object) -> float | None:
    """A number, a tensor or an array of one element as a number; None for anything else."""
    try:
        return float(value) if isinstance(value, SupportsFloat | str) else None
    except (TypeError, ValueError):
        return None


def _wrap_writer(module: ModuleType, collector: _Collector) -> None:
    # tensorboardX shows the same class under two names: the second time it is wrapped already.
    writer = getattr(module, "SummaryWriter", None)
    if writer is None or getattr(writer, "_mosaic_listens", False):
        return
    original, closing = writer.add_scalar, writer.close

    @functools.wraps(original)
    def add_scalar(
        self: object,
        tag: str,
        scalar_value: object,
        global_step: object = None,
        *rest: object,
        **options: object,
    ) -> object:
        collector.scalar(tag, scalar_value, global_step)
        return original(self, tag, scalar_value, global_step, *rest, **options)

    @functools.wraps(closing)
    def close(self: object) -> object:
        collector.close()
        return closing(self)

    writer.add_scalar, writer.close, writer._mosaic_listens = add_scalar, close, True


def when_imported(names: tuple[str, ...], act: Callable[[ModuleType], None]) -> None:
    """Act on modules now if they are loaded, else right after their import."""
    for name in names:
        if name in sys.modules:
            act(sys.modules[name])
    # First, or the module would be found and executed before this one is asked.
    sys.meta_path.insert(0, _AfterImport(names, act))


class _AfterImport:
    """Lets the other finders find a module, then acts on it once it is loaded."""

    def __init__(self, names: tuple[str, ...], act: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._act = act
        self._looking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The real spec, with an action after its execution."""
        # `find_spec` below asks every finder again, this one too.
        if name not in self._names or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute, act = spec.loader.exec_module, self._act

            def exec_module(module: ModuleType) -> None:
                execute(module)
                act(module)

            # On this loader object alone: its class loads other modules too.
            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010
        return spec
