"""Plays a trained policy, episode after episode, and writes `eval_summary.json`.

`python -m cleanrl_worker.programs.evaluate --policy RUN_OR_FILE --episodes 20 --run-dir DIR`
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.running.bridge import CURVES_DIR, METRICS, Bridge
from cleanrl_worker.running.control import Control
from cleanrl_worker.running.evaluation import Episode, evaluate
from cleanrl_worker.running.handover import accept
from cleanrl_worker.running.tensorboard import event_writer
from mosaic.curves.names import EVALUATION_TAGS, LENGTH, RETURN, SPEED
from mosaic.runs.metric_writer import MetricWriter
from mosaic.statistics.episodes import summarise_returns
from mosaic.system import atomic

_REPORT_EVERY_S = 1.0


class Evaluation:
    """Rounds of episodes, reported as they end."""

    def __init__(self, options: argparse.Namespace, control: Control) -> None:
        self._options = options
        self._control = control
        self._run_dir = Path(options.run_dir)
        self._episodes: list[Episode] = []
        self._began = time.monotonic()
        self._reported = 0.0
        self._events = event_writer(Path(options.tensorboard_dir or self._run_dir / "tensorboard"))
        self._metrics = MetricWriter(os.environ.get(CURVES_DIR) or self._run_dir)

    def play(self) -> None:
        """Play one round, or round after round until stopped."""
        options = self._options
        try:
            while True:
                before = len(self._episodes)
                evaluate(
                    options.policy,
                    options.env_id,
                    episodes=options.episodes,
                    # Each round sees new episodes, and the first is the same every time.
                    seed=options.seed + before,
                    gamma=options.gamma,
                    max_steps=options.max_steps,
                    deterministic=not options.sample,
                    video_dir=self._video_dir(before),
                    on_episode=self._note,
                    algorithm=options.algo,
                    policy_seed=options.policy_seed,
                    each_seed=options.each_seed,
                    between_steps=self._control.safe_point,
                )
                self._write_summary()
                if not options.repeat:
                    return
        finally:
            self.close()

    def close(self) -> None:
        """Write what is still open; an evaluation that was stopped counts as far as it got."""
        if self._episodes:
            self._report()
            self._write_summary()
        self._events.close()
        self._metrics.close()

    def _video_dir(self, done: int) -> Path | None:
        if not self._options.video:
            return None
        folder = self._run_dir / "videos"
        return folder / f"after-{done}" if done else folder

    def _note(self, episode: Episode) -> None:
        self._episodes.append(episode)
        step, now = len(self._episodes), time.time()
        values = {
            EVALUATION_TAGS[RETURN]: episode.episodic_return,
            EVALUATION_TAGS[LENGTH]: float(episode.length),
            "eval/discounted_return": episode.discounted_return,
        }
        for tag, value in values.items():
            self._events.add_scalar(tag, value, step, now)
            self._metrics.add(tag, step, value, now)
        if time.monotonic() - self._reported >= _REPORT_EVERY_S:
            self._report()

    def _report(self) -> None:
        self._reported = time.monotonic()
        steps = sum(episode.length for episode in self._episodes)
        count = len(self._episodes)
        mean_return = sum(episode.episodic_return for episode in self._episodes) / count
        values = {
            RETURN: mean_return,
            LENGTH: steps / count,
            SPEED: steps / max(time.monotonic() - self._began, 1e-9),
        }
        total = 0 if self._options.repeat else self._options.episodes
        self._control.bridge.send(METRICS, step=count, total=total, values=values)
        self._events.flush()
        if not self._control.bridge.connected:
            print(f"episodes={count}  episodic_return={mean_return:.2f}", flush=True)

    def _write_summary(self) -> None:
        options = self._options
        returns = [episode.episodic_return for episode in self._episodes]
        statistics = summarise_returns(returns, options.seed)
        summary = {
            "schema_version": 1,
            "policy": str(options.policy),
            "env_id": options.env_id,
            "seed": options.seed,
            "gamma": options.gamma,
            "max_steps": options.max_steps,
            "deterministic": not options.sample,
            "policy_seed": options.policy_seed,
            # The seed of each episode, in the order of `returns`; none where they share one.
            "seeds": self._seeds(),
            "episode_seeds": [episode.seed for episode in self._episodes],
            "episodes": len(self._episodes),
            "episodes_cut": sum(episode.cut for episode in self._episodes),
            **statistics,
            "discounted_return_mean": _mean([e.discounted_return for e in self._episodes]),
            "length_mean": _mean([episode.length for episode in self._episodes]),
            "returns": returns,
            "lengths": [episode.length for episode in self._episodes],
        }
        atomic.write_text(self._run_dir / "eval_summary.json", json.dumps(summary, indent=2))
        now = time.time()
        for name in ("mean", "std", "min", "max", "median", "iqm"):
            self._events.add_scalar(f"eval/{name}", summary[name], len(returns), now)

    def _seeds(self) -> list[int] | None:
        first = self._options.seed
        return [first + i for i in range(len(self._episodes))] if self._options.each_seed else None


def _mean(numbers: Sequence[float]) -> float:
    return float(sum(numbers)) / len(numbers)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Take what the worker hands over, or read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", required=True, type=Path)
    parser.add_argument("--algo", help="of a plain state dict")
    parser.add_argument("--env-id", help="by default the one it was trained in")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--max-steps", type=int, help="cut longer episodes")
    parser.add_argument("--run-dir", default=".")
    parser.add_argument("--tensorboard-dir")
    parser.add_argument("--video", action="store_true", help="record every episode")
    parser.add_argument("--repeat", action="store_true", help="continue until stopped")
    parser.add_argument("--sample", action="store_true", help="sample actions, not the best ones")
    parser.add_argument("--each-seed", action="store_true", help="a seed for each episode")
    parser.add_argument("--policy-seed", type=int, help="of a run that trained several seeds")
    values = accept()
    if values is None:
        return parser.parse_args(arguments)
    options = parser.parse_args(["--policy", str(values.pop("policy"))])
    return argparse.Namespace(**{**vars(options), **values})


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate; the exit status is 0, 1 failed or 2 refused.

    Raises:
        SystemExit: With 143, when it was stopped.
    """
    options = parse(arguments)
    bridge = Bridge()
    try:
        control = Control(bridge)
        control.start()
        Evaluation(options, control).play()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        bridge.send("run_failed", reason=str(error))
        return 2
    except Exception as error:
        traceback.print_exc()
        bridge.send("run_failed", reason=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
