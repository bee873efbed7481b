"""Where a run's numbers go: TensorBoard, the run's own metric files, W&B, the bridge."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias, TypedDict

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import TrainingError
from cleanrl_worker.kit.types import EndedEpisode
from cleanrl_worker.running.bridge import CURVES_DIR, METRICS, Bridge
from cleanrl_worker.running.tensorboard import event_writer
from cleanrl_worker.running.wandb_logging import WandbLogger
from mosaic.curves.episodes import EpisodesByMember, NewestEpisodes
from mosaic.curves.members import Member
from mosaic.curves.names import (
    BEST_STEP,
    DIVERGED,
    EVALUATED_RETURN,
    EVALUATION_TAGS,
    LENGTH,
    LOSSES,
    RETURN,
    SPEED,
    TAGS,
)
from mosaic.curves.pace import next_mark
from mosaic.runs.metric_writer import MetricWriter

# People read the headline numbers, and would not notice more than one a second.
_REPORT_EVERY_S = 1.0
_PRINT_EVERY_S = 2.0
# The share of variance that a critic explains is undefined while all returns are equal.
MAY_BE_UNDEFINED = "losses/explained_variance"


class EndedEpisodes(TypedDict):
    """The episodes since the last report: how many, and the sums of their steps and returns."""

    count: int
    steps: int
    returns: float


# Of one member: its newest episodes, and how many ended before them.
MemberEpisodes: TypeAlias = tuple[list[EndedEpisode], int]


class Logger:
    """Takes every number of a run and passes it on, at the rate each listener wants."""

    def __init__(
        self,
        args: RunArgs,
        run_dir: Path,
        bridge: Bridge,
        total: int,
        newest: NewestEpisodes | EpisodesByMember,
        members: int = 1,
    ) -> None:
        """Open everything that numbers are written to.

        Args:
            args: The run's arguments.
            run_dir: Where the files go.
            bridge: The line to the worker.
            total: The environment steps of the whole schedule.
            newest: The episodes that the return is computed from; a resumed run has some already.
            members: How many are trained side by side; the speed is that of all together.
        """
        self._members = members
        self._bridge = bridge
        self._total = total
        folder = Path(args.tensorboard_dir) if args.tensorboard_dir else run_dir / "tensorboard"
        self._events = event_writer(folder)
        self._events.add_text("hyperparameters", _as_table(args))
        self._metrics = metric_writer()
        self._wandb = _wandb_logger(args, run_dir, bridge) if args.track else None
        self._losses: dict[str, float] = {}
        self._headline = {SPEED: 0.0}
        self._episodes: list[EndedEpisode] = []
        self._newest = newest
        self._disk_trouble = ""
        self._last_ended = 0
        self._stored_all = True
        self._paused_s = 0.0
        self.start(0)

    def start(self, step: int) -> None:
        """Begin to measure speed from here."""
        self._began = self._reported = self._printed = time.monotonic()
        self._first_step = self._reported_step = step

    def paused(self, seconds: float) -> None:
        """Leave a pause out of the speed."""
        self._paused_s += seconds
        self._reported += seconds

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log named numbers of an update, and the speed with them.

        Raises:
            TrainingError: One of them is not finite.
        """
        now = time.time()
        # One-element tensors and NumPy scalars become plain numbers here, once.
        numbers = {tag: float(value) for tag, value in values.items()}
        for tag, value in numbers.items():
            if not math.isfinite(value) and tag != MAY_BE_UNDEFINED:
                self._bridge.send(
                    "alarm",
                    rule="not-a-number",
                    step=step,
                    evidence=f"{tag} became {value} at step {step:,}",
                    advice="continue from before it with a lower learning_rate, and look for "
                    "divisions by zero and logarithms of zero",
                )
                raise TrainingError(
                    f"{tag} became {value} at step {step}; training has diverged. "
                    "Lower --learning-rate, or continue from an earlier checkpoint with --resume."
                )
        elapsed = time.monotonic() - self._began - self._paused_s
        numbers[TAGS[SPEED]] = self._members * (step - self._first_step) / max(elapsed, 1e-9)
        for tag, value in numbers.items():
            if tag.startswith(LOSSES):
                self._losses[tag] = value
            self._events.add_scalar(tag, value, step, now)
            if self._metrics is not None:
                self._metrics.add(tag, step, value, now)
        if self._wandb is not None:
            self._wandb.log({**numbers, "global_step": step})

    def episodes(self, step: int, ended: Sequence[EndedEpisode], older: int = 0) -> None:
        """Log episodes that ended.

        Args:
            step: The step at which they ended.
            ended: Their returns and lengths.
            older: How many ended before them since the last call, of which only the number counts.
        """
        if not ended:
            return
        now = time.time()
        for total, length in ended:
            self._events.add_scalar(TAGS[RETURN], total, step, now)
            self._events.add_scalar(TAGS[LENGTH], length, step, now)
        self._episodes += ended
        assert isinstance(self._newest, NewestEpisodes), "several members log by member"
        self._newest.count_older(older)
        self._newest.add(ended)
        self._store_at_marks(step, now)

    def episodes_by_member(self, step: int, ended: Mapping[Member, MemberEpisodes]) -> None:
        """Log the episodes of several members that were trained side by side."""
        if not ended:
            return
        now = time.time()
        assert isinstance(self._newest, EpisodesByMember), "a run of one member logs episodes"
        for member, (episodes, older) in ended.items():
            newest = self._newest.by_member[member]
            newest.count_older(older)
            newest.add(episodes)
            self._episodes += episodes
        self._store_at_marks(step, now)

    def give_up(self, step: int, member: Member, why: str) -> None:
        """End the curves of a member that has diverged, and say so."""
        assert isinstance(self._newest, EpisodesByMember), "a run of one member ends instead"
        self._newest.give_up(member)
        now, tag = time.time(), member.tag(DIVERGED)
        self._events.add_scalar(tag, step, step, now)
        if self._metrics is not None:
            self._metrics.add(tag, step, step, now)
        self._bridge.send(
            "alarm",
            rule="not-a-number",
            step=step,
            evidence=f"{member} has diverged: {why} at step {step:,}; the others continue",
            advice="leave these settings out, or lower learning_rate",
        )

    def _store_at_marks(self, step: int, now: float) -> None:
        self._last_ended, self._stored_all = step, False
        # By steps, not by time: the same run stores the same curve, however busy the machine.
        if step >= self._newest.next_mark:
            self._newest.next_mark = next_mark(step, self._total)
            self._store_means(now)

    def evaluation(self, returns: Sequence[float]) -> None:
        """Log the returns of a policy that is evaluated after training, by episode."""
        now, tag = time.time(), EVALUATION_TAGS[RETURN]
        for episode, total in enumerate(returns):
            self._events.add_scalar(tag, total, episode, now)
            if self._metrics is not None:
                self._metrics.add(tag, episode, total, now)
        if self._wandb is not None:
            self._wandb.log({tag: sum(returns) / len(returns), "global_step": self._total})

    def evaluated(self, step: int, values: Mapping[str, float], best: int) -> None:
        """Log an evaluation beside training, at the step whose policy was judged."""
        now = time.time()
        for tag, value in values.items():
            self._events.add_scalar(tag, value, step, now)
            if self._metrics is not None:
                self._metrics.add(tag, step, value, now)
        if self._wandb is not None:
            self._wandb.log({**values, "global_step": step})
        self._headline |= {EVALUATED_RETURN: values[EVALUATED_RETURN], BEST_STEP: float(best)}

    def report(self, step: int, *, force: bool = False) -> None:
        """Send the headline numbers if it is time to."""
        now = time.monotonic()
        since = now - self._reported
        if since < _REPORT_EVERY_S and not force:
            return
        ended = _summed(self._episodes)
        self._episodes = []
        self._headline |= self._newest.means()
        if since > 0 and step > self._reported_step:
            self._headline[SPEED] = self._members * (step - self._reported_step) / since
        values = {**self._losses, **self._headline}
        finite = {tag: value for tag, value in values.items() if math.isfinite(value)}
        told = ended if math.isfinite(ended["returns"]) else None
        self._bridge.send(METRICS, step=step, total=self._total, values=finite, ended=told)
        self._reported, self._reported_step = now, step
        self._events.flush()
        self._check_the_disk()
        if not self._bridge.connected and (force or now - self._printed >= _PRINT_EVERY_S):
            self._printed = now
            print(_progress_line(step, self._total, finite), flush=True)

    def write(self) -> None:
        """Write every number until here to its file; what the disk refuses waits as ever."""
        self._events.flush()
        if self._metrics is not None:
            self._metrics.flush()

    def close(self, step: int) -> None:
        """Send and write what is left."""
        # The end of the stored curve is the number that the table shows.
        if not self._stored_all:
            self._store_means(time.time())
        self.report(step, force=True)
        self._events.close()
        if self._metrics is not None:
            self._metrics.close()
        if self._wandb is not None:
            self._wandb.finish()

    def _check_the_disk(self) -> None:
        """Say once that the disk takes no numbers, and once that it does again."""
        writers = [writer for writer in (self._events, self._metrics) if writer is not None]
        trouble = next((writer.trouble for writer in writers if writer.trouble), "")
        if bool(trouble) == bool(self._disk_trouble):
            return
        self._disk_trouble = trouble
        lost = sum(writer.lost for writer in writers)
        text = (
            f"the run's numbers cannot be written: {trouble}; they wait in memory, training "
            "continues"
            if trouble
            else f"the run's numbers are written again; {lost} were lost"
        )
        print(text, file=sys.stderr, flush=True)
        self._bridge.send("note", text=text)

    def _store_means(self, now: float) -> None:
        """Store the return of this moment, as everything else shows it, as one point."""
        self._stored_all = True
        step = self._last_ended
        means = self._newest.curves()
        for tag, value in means.items():
            if self._metrics is not None:
                self._metrics.add(tag, step, value, now)
            # Of several members no single episode was written: there would be too many.
            if isinstance(self._newest, EpisodesByMember):
                self._events.add_scalar(tag, value, step, now)
        if self._wandb is not None:
            self._wandb.log({**means, "global_step": step})


def metric_writer() -> MetricWriter | None:
    """The run's own metric files; None for a script that was started by hand."""
    folder = os.environ.get(CURVES_DIR) or os.environ.get("MOSAIC_RUN_DIR")
    return MetricWriter(folder) if folder else None


def _wandb_logger(args: RunArgs, run_dir: Path, bridge: Bridge) -> WandbLogger:
    return WandbLogger(bridge, args.wandb_project_name, args.wandb_entity, run_dir, asdict(args))


def _as_table(args: RunArgs) -> str:
    rows = "\n".join(f"|{name}|{value}|" for name, value in asdict(args).items())
    return f"|param|value|\n|-|-|\n{rows}"


def _summed(episodes: Collection[EndedEpisode]) -> EndedEpisodes:
    return {
        "count": len(episodes),
        "steps": sum(length for _, length in episodes),
        "returns": float(sum(total for total, _ in episodes)),
    }


def _progress_line(step: int, total: int, values: Mapping[str, float]) -> str:
    parts = [f"global_step={step}/{total}"]
    if RETURN in values:
        parts.append(f"episodic_return={values[RETURN]:.2f}")
    parts.append(f"SPS={values[SPEED]:.0f}")
    return "  ".join(parts)
