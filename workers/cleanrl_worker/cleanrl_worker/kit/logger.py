"""Where a run's numbers go: TensorBoard, the run's own metric files, W&B, the bridge."""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.bridge import Bridge
from cleanrl_worker.kit.errors import TrainingError
from cleanrl_worker.kit.tensorboard import event_writer
from cleanrl_worker.kit.wandb_logging import WandbLogger

_REPORT_EVERY_S = 1.0
_PRINT_EVERY_S = 2.0
# The run's own metric files are compact: episodes that end close together become one point.
_METRIC_WINDOW_S = 0.1


class Logger:
    """Takes every number of a run and passes it on, at the rate each listener wants."""

    def __init__(self, args: RunArgs, run_dir: Path, bridge: Bridge, total: int) -> None:
        self._bridge = bridge
        self._total = total
        folder = Path(args.tensorboard_dir) if args.tensorboard_dir else run_dir / "tensorboard"
        self._events = event_writer(folder)
        self._events.add_text("hyperparameters", _as_table(args))
        self._metrics = _metric_writer()
        self._wandb = _tracker(args, run_dir, bridge) if args.track else None
        self._values: dict[str, float] = {}
        self._episodes: list[tuple[float, int]] = []
        self._window: list[tuple[float, int]] = []
        self._window_ends = 0.0
        self._began = self._reported = self._printed = time.monotonic()
        self._first_step = self._reported_step = 0
        self._paused_s = 0.0
        self._disk_trouble = ""

    def start(self, step: int) -> None:
        """Begin to measure speed from here."""
        self._began = self._reported = self._printed = time.monotonic()
        self._first_step = self._reported_step = step

    def paused(self, seconds: float) -> None:
        """Leave a pause out of the speed."""
        self._paused_s += seconds
        self._reported += seconds

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Log named numbers of an update, and the speed with them."""
        now = time.time()
        values = {tag: float(value) for tag, value in values.items()}
        for tag, value in values.items():
            if not math.isfinite(value) and tag != "losses/explained_variance":
                raise TrainingError(
                    f"{tag} became {value} at step {step}; training has diverged. "
                    "Lower --learning-rate, or continue from an earlier checkpoint with --resume."
                )
        elapsed = time.monotonic() - self._began - self._paused_s
        values["charts/SPS"] = (step - self._first_step) / max(elapsed, 1e-9)
        self._values.update(values)
        for tag, value in values.items():
            self._events.add_scalar(tag, value, step, now)
            if self._metrics is not None:
                self._metrics.add(tag, step, value, now)
        if self._wandb is not None:
            self._wandb.log({**values, "global_step": step})

    def episodes(self, step: int, ended: list[tuple[float, int]]) -> None:
        """Log episodes that ended."""
        now = time.time()
        for total, length in ended:
            self._events.add_scalar("charts/episodic_return", total, step, now)
            self._events.add_scalar("charts/episodic_length", length, step, now)
        self._episodes += ended
        self._window += ended
        if now >= self._window_ends:
            self._close_window(step, now)

    def report(self, step: int, *, force: bool = False) -> None:
        """Send the headline numbers on when it is time to."""
        now = time.monotonic()
        since = now - self._reported
        if since < _REPORT_EVERY_S and not force:
            return
        values = {tag: value for tag, value in self._values.items() if tag.startswith("losses/")}
        ended = _summed(self._episodes)
        if self._episodes:
            self._values["return"] = ended["returns"] / ended["count"]
            self._values["length"] = ended["steps"] / ended["count"]
            self._episodes = []
        if "return" in self._values:
            values["episodic_return"] = self._values["return"]
            values["episodic_length"] = self._values["length"]
        if since > 0 and step > self._reported_step:
            self._values["sps"] = (step - self._reported_step) / since
        values["sps"] = self._values.get("sps", 0.0)
        finite = {tag: value for tag, value in values.items() if math.isfinite(value)}
        told = ended if math.isfinite(ended["returns"]) else None
        self._bridge.send("metrics", step=step, total=self._total, values=finite, ended=told)
        self._reported, self._reported_step = now, step
        self._events.flush()
        self._mind_the_disk()
        if not self._bridge.connected and (force or now - self._printed >= _PRINT_EVERY_S):
            self._printed = now
            print(_progress_line(step, self._total, finite), flush=True)

    def close(self, step: int) -> None:
        """Send and write what is left."""
        self._close_window(step, time.time())
        self.report(step, force=True)
        self._events.close()
        if self._metrics is not None:
            self._metrics.close()
        if self._wandb is not None:
            self._wandb.finish()

    def _mind_the_disk(self) -> None:
        """Say once that the disk takes no numbers, and once that it does again."""
        writers = [writer for writer in (self._events, self._metrics) if writer is not None]
        trouble = next((writer.trouble for writer in writers if writer.trouble), "")
        if bool(trouble) == bool(self._disk_trouble):
            return
        self._disk_trouble = trouble
        lost = sum(writer.lost for writer in writers)
        text = (
            f"the run's numbers cannot be written: {trouble}; they wait in memory, training goes on"
            if trouble
            else f"the run's numbers are written again; {lost} were lost"
        )
        print(text, file=sys.stderr, flush=True)
        self._bridge.send("note", text=text)

    def _close_window(self, step: int, now: float) -> None:
        self._window_ends = now + _METRIC_WINDOW_S
        if not self._window:
            return
        total = _mean([episode[0] for episode in self._window])
        length = _mean([episode[1] for episode in self._window])
        self._window = []
        if self._metrics is not None:
            self._metrics.add("charts/episodic_return", step, total, now)
            self._metrics.add("charts/episodic_length", step, length, now)
        if self._wandb is not None:
            self._wandb.log(
                {
                    "charts/episodic_return": total,
                    "charts/episodic_length": length,
                    "global_step": step,
                }
            )


def _metric_writer() -> Any:
    folder = os.environ.get("MOSAIC_RUN_DIR")
    if not folder:
        return None
    from mosaic.runs.metric_writer import MetricWriter

    return MetricWriter(Path(folder))


def _tracker(args: RunArgs, run_dir: Path, bridge: Bridge) -> WandbLogger:
    return WandbLogger(bridge, args.wandb_project_name, args.wandb_entity, run_dir, asdict(args))


def _as_table(args: RunArgs) -> str:
    rows = "\n".join(f"|{name}|{value}|" for name, value in asdict(args).items())
    return f"|param|value|\n|-|-|\n{rows}"


def _summed(episodes: list[tuple[float, int]]) -> dict[str, float]:
    return {
        "count": len(episodes),
        "steps": sum(length for _, length in episodes),
        "returns": float(sum(total for total, _ in episodes)),
    }


def _mean(numbers: list[float] | list[int]) -> float:
    return float(sum(numbers)) / len(numbers)


def _progress_line(step: int, total: int, values: dict[str, float]) -> str:
    parts = [f"global_step={step}/{total}"]
    if "episodic_return" in values:
        parts.append(f"episodic_return={values['episodic_return']:.2f}")
    parts.append(f"SPS={values['sps']:.0f}")
    return "  ".join(parts)
