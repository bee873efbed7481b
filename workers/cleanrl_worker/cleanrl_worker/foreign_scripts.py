"""The metric bridge for scripts that know nothing of MOSAIC: their summary writer tells us."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from cleanrl_worker.kit.bridge import Bridge
from cleanrl_worker.kit.wandb_logging import init_or_offline

_INTERVAL_S = 1.0
# CleanRL's tags as headline names.
_HEADLINES = {
    "charts/episodic_return": "episodic_return",
    "charts/episodic_length": "episodic_length",
    "charts/SPS": "sps",
}
_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer", "tensorboardX")


def wait_for_go() -> Bridge:
    """The bridge, once the worker has shaken hands; at once when nobody listens."""
    bridge = Bridge()
    while bridge.connected:
        commands = bridge.wait()
        if "go" in commands or not commands:
            break
    return bridge


def listen_to_summary_writers(bridge: Bridge, total: int) -> None:
    """Report every scalar a `SummaryWriter` is given, at most once a second."""
    collector = _Collector(bridge, total)
    _when_imported(_WRITERS, lambda module: _patch(module, collector))


def spare_wandb(bridge: Bridge) -> None:
    """Let a script whose W&B cannot be reached go on offline instead of failing."""

    def patch(module: Any) -> None:
        original = module.init

        @functools.wraps(original)
        def init(**options: Any) -> Any:
            return init_or_offline(original, bridge, options)

        module.init = init

    if os.environ.get("WANDB_RUN_ID"):
        _when_imported(("wandb",), patch)


class _Collector:
    """Merges scalars into headline metrics and keeps the full curves."""

    def __init__(self, bridge: Bridge, total: int) -> None:
        self._bridge = bridge
        self._total = total
        self._values: dict[str, float] = {}
        self._ended = {"count": 0, "steps": 0.0, "returns": 0.0}
        self._sent_at = 0.0
        self._step = 0
        self._writer = _metric_writer()

    def scalar(self, tag: str, value: Any, step: Any) -> None:
        """Note one scalar."""
        try:
            number, at = float(value), int(step or 0)
        except (TypeError, ValueError):
            return
        self._step = max(self._step, at)
        if self._writer is not None:
            self._writer.add(tag, at, number)
        name = _HEADLINES.get(tag, tag if tag.startswith("losses/") else None)
        if name is None or number != number or abs(number) == float("inf"):
            return
        self._values[name] = number
        self._count(name, number)
        if time.monotonic() - self._sent_at >= _INTERVAL_S:
            self.send()

    def _count(self, name: str, number: float) -> None:
        if name == "episodic_return":
            self._ended["count"] += 1
            self._ended["returns"] += number
        elif name == "episodic_length":
            self._ended["steps"] += number

    def send(self) -> None:
        """Report what has been collected."""
        if self._values:
            self._sent_at = time.monotonic()
            self._bridge.send(
                "metrics",
                step=self._step,
                total=self._total,
                values=dict(self._values),
                ended=self._ended,
            )
            self._ended = dict.fromkeys(self._ended, 0)

    def close(self) -> None:
        """Report what is left."""
        self.send()
        if self._writer is not None:
            self._writer.flush()


def _metric_writer() -> Any:
    run_dir = os.environ.get("MOSAIC_RUN_DIR")
    if not run_dir:
        return None
    from mosaic.runs.metric_writer import MetricWriter

    return MetricWriter(run_dir)


def _patch(module: Any, collector: _Collector) -> None:
    writer = getattr(module, "SummaryWriter", None)
    if writer is None or getattr(writer, "_mosaic_listens", False):
        return
    original, closing = writer.add_scalar, writer.close

    @functools.wraps(original)
    def add_scalar(
        self: Any, tag: str, scalar_value: Any, global_step: Any = None, *rest: Any, **k: Any
    ) -> Any:
        collector.scalar(tag, scalar_value, global_step)
        return original(self, tag, scalar_value, global_step, *rest, **k)

    @functools.wraps(closing)
    def close(self: Any) -> Any:
        collector.close()
        return closing(self)

    writer.add_scalar, writer.close, writer._mosaic_listens = add_scalar, close, True


def _when_imported(names: tuple[str, ...], act: Callable[[Any], None]) -> None:
    """Act on modules now if they are loaded, else right after their import."""
    for name in names:
        if name in sys.modules:
            act(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport(names, act))


class _AfterImport:
    """Lets the other finders find a module, then acts on it once it is loaded."""

    def __init__(self, names: tuple[str, ...], act: Callable[[Any], None]) -> None:
        self._names = names
        self._act = act
        self._looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The real spec, with an action after its execution."""
        if name not in self._names or self._looking:
            return None
        import importlib.util

        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute, act = spec.loader.exec_module, self._act

            def exec_module(module: Any) -> None:
                execute(module)
                act(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
