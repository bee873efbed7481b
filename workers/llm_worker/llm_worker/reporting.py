"""What a run tells the daemon: every step with its thoughts, every episode, the numbers so far."""

from __future__ import annotations

import time
from dataclasses import asdict

from llm_worker.play.actions import Json
from llm_worker.play.game import EpisodeResult
from llm_worker.play.records import RunRecords, StepRecord
from llm_worker.process import LlmProcess
from llm_worker.settings import Settings
from mosaic.curves.names import LAST_EPISODES, SPEED
from mosaic.telemetry.records import Kind

# The mark that a run can be continued is written at most this often; the records themselves are
# complete after each step.
CHECKPOINT_S = 5.0


class Reporter:
    """Tells the daemon about each step and each episode."""

    def __init__(self, process: LlmProcess, records: RunRecords, settings: Settings) -> None:
        self._process = process
        self._records = records
        self._settings = settings
        self._seed = settings.seed
        self._steps = 0
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._wins: list[bool] = []
        self._tokens = 0
        self._cost: float | None = 0.0
        self._began = time.monotonic()
        self._marked = float("-inf")
        self._last: tuple[int, int] = (0, 0)
        # After a kill the same run takes its recorded steps again: the daemon has these already.
        told = process.telemetry
        self._told_steps = told.known(Kind.STEPS) if told is not None else 0
        self._told_episodes = told.known(Kind.EPISODES) if told is not None else 0

    def begin(self) -> None:
        """The run begins, or begins again after a kill."""
        restarts, steps = self._process.restarts, len(self._records.done)
        if not restarts:
            # Before the first request: what is paid for from here on can be continued.
            self.save()
            return
        text = f"the worker was killed and started again ({restarts})"
        self._process.emit.note("note", {"text": f"{text}; {steps} steps are taken again"})

    def goes_on(self) -> bool:
        """Whether to take another step; waits while paused."""
        return self._process.safe_point(self.save)

    def stepped(self, record: StepRecord, picture: bytes) -> None:
        """A step was taken, now or before the run was continued."""
        self._steps += 1
        self._last = (record.episode, record.step)
        self._tokens += record.tokens_in + record.tokens_out
        known = self._cost is not None and record.cost is not None
        self._cost = (self._cost or 0.0) + (record.cost or 0.0) if known else None
        if self._steps <= self._told_steps:
            return
        if self._process.telemetry is not None:
            self._process.telemetry.step(
                episode=record.episode,
                step=record.step,
                observation=record.text,
                action=record.action,
                reward=record.reward,
                terminated=record.terminated,
                truncated=record.truncated,
                info=_thoughts(record),
                frame=picture,
            )
        if time.monotonic() - self._marked > CHECKPOINT_S:
            self.save()
        self._metrics(record.episode)

    def ended(self, episode: EpisodeResult, more: Json | None = None) -> None:
        """An episode is over; `more` is kept with it."""
        told = episode.episode < self._told_episodes
        if self._process.telemetry is not None and not told:
            self._process.telemetry.episode(
                episode=episode.episode,
                length=episode.steps,
                total_reward=episode.total,
                outcome=episode.outcome,
                seed=episode.seed,
                info={
                    "tokens": episode.tokens,
                    "cost": episode.cost,
                    "seconds": episode.seconds,
                    **(more or {}),
                },
            )
        if episode.outcome in ("budget", "stopped"):
            return
        self._returns = [*self._returns, episode.total][-LAST_EPISODES:]
        self._lengths = [*self._lengths, episode.steps][-LAST_EPISODES:]
        if episode.success is not None:
            self._wins = [*self._wins, episode.success][-LAST_EPISODES:]
        if not told:
            self._metrics(episode.episode + 1)

    def save(self) -> None:
        """Mark that the run can be continued from here."""
        self._marked = time.monotonic()
        path, digest = self._records.write_checkpoint(*self._last)
        self._process.emit.checkpoint_saved(path, self._steps, digest, "full")

    def _metrics(self, episodes: int) -> None:
        elapsed = max(1e-9, time.monotonic() - self._began)
        values: dict[str, float] = {
            SPEED: self._steps / elapsed,
            "llm/tokens": float(self._tokens),
            "steps": float(self._steps),
        }
        if self._cost is not None:
            values["llm/cost"] = self._cost
        if self._returns:
            values["episodic_return"] = sum(self._returns) / len(self._returns)
            values["episodic_length"] = sum(self._lengths) / len(self._lengths)
        if self._wins:
            values["success"] = sum(self._wins) / len(self._wins)
        self._process.emit.metrics(episodes, self._settings.episodes, values)


def _said(record: StepRecord) -> str:
    if record.probability is None:
        return record.reasoning
    return f"{record.reasoning} ({record.probability:.0%} sure)"


def _thoughts(record: StepRecord) -> Json:
    """What a viewer shows beside the board, as any agent with a mind tells it.

    The decision is the action, the intention the reason for it, the beliefs what was read.
    """
    fields = asdict(record)
    who = f"{record.player}: " if record.player else ""
    names = ("reasoning", "valid", "reply", "tokens_in", "tokens_out", "tokens_cached", "cost")
    return {
        "decision": f"{who}{record.action_name}{'' if record.valid else ' (default)'}",
        "intention": _said(record),
        "beliefs": list(record.text.splitlines()),
        "llm": {name: fields[name] for name in names},
    }
