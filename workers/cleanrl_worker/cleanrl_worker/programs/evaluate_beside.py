"""Judges the policies that a training run puts into a folder, one after the other.

Started by `cleanrl_worker.running.beside`: a line on standard input says that a policy has come,
and the end of standard input that training is gone. For each policy one JSON line is answered, and
`step-<N>.json` with every episode is left beside the folder of those that wait. The best policy so
far is kept in `best/`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.envs import drawn
from cleanrl_worker.kit.errors import CheckpointError, UsageError
from cleanrl_worker.running import checked_files
from cleanrl_worker.running.beside import WAITING
from cleanrl_worker.running.checkpoint_files import POLICY_SUFFIX, step_of
from cleanrl_worker.running.evaluation import Episode, Player, TrainedPolicy, open_policy
from cleanrl_worker.running.recording import EpisodeRecorder
from mosaic.curves.names import (
    EVALUATED_LENGTH,
    EVALUATED_RETURN,
    SAMPLED_RETURN,
    ends_of,
    term_tag,
)
from mosaic.statistics.episodes import mean_interval
from mosaic.system import atomic

BEST = "best"
# Of Atari half an hour of play; a policy that never loses must not keep the others waiting.
_MOST_STEPS = 27_000
_LOOK_EVERY_S = 0.5


class Terms:
    """The numbers of `info` that are parts of the reward, added up over an episode."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def seen(self, index: int, info: Mapping[str, object]) -> None:
        """One step was made."""
        for name, value in info.items():
            tag = term_tag(name)
            if tag and isinstance(value, int | float):
                self.sums[tag] = self.sums.get(tag, 0.0) + float(value)


class Judge:
    """Plays policies on the held-out seeds.

    Args:
        folder: The run's folder of evaluations.
        seeds: Those that every policy plays.
        videos: Whether the `typical` episodes are filmed.
    """

    def __init__(self, folder: Path, seeds: Sequence[int], *, videos: bool) -> None:
        self._folder, self._seeds, self._videos = folder, seeds, videos
        self._parent = os.getppid()
        self._next_look = 0.0
        self._best = _best_so_far(folder)

    def judge(self, path: Path) -> dict[str, object]:
        """Play one policy, write down how it did, and return the line for training."""
        step = step_of(path)
        trained = open_policy(path)
        envs = trained.make_envs(1)
        try:
            if envs.num_envs != 1:
                raise UsageError("a game of several players is not judged by one return")
            terms = Terms()
            if hasattr(envs, "watch"):
                envs.watch(terms.seen)
            player = Player(envs, trained.rebuild(envs), max_steps=_MOST_STEPS)
            sure = [self._play(player, seed, True) for seed in self._seeds]
            sums = {tag: total / len(sure) for tag, total in terms.sums.items()}
            sampled = [self._play(player, seed, False) for seed in self._seeds]
        finally:
            envs.close()
        recorded = self._record(step, trained, sure)
        summary = {
            "schema_version": 1,
            "step": step,
            "seeds": list(self._seeds),
            "deterministic": _numbers(sure),
            "sampled": _numbers(sampled),
            "terms": sums,
            "recorded": recorded,
        }
        text = json.dumps(summary, allow_nan=False)
        atomic.write_text(self._folder / f"step-{step}.json", text)
        score = _numbers(sure)["mean"]
        assert isinstance(score, float)
        self._keep_best(path, step, score)
        return {
            "step": step,
            "score": score,
            "best": self._best[1],
            "values": {**_points(sure, sampled), **sums},
            "used_s": _used_s(),
        }

    def _play(self, player: Player, seed: int, deterministic: bool) -> Episode:
        return player.play(1, seed, deterministic, self._look)[0]

    def _record(
        self, step: int, trained: TrainedPolicy, episodes: Sequence[Episode]
    ) -> list[dict[str, object]]:
        """Play some of the episodes again, this time with pictures."""
        if not self._videos:
            return []
        found: list[dict[str, object]] = []
        played: dict[int, dict[str, object]] = {}
        for role, place in typical(episodes).items():
            # With few seeds one episode has several roles.
            if place in played:
                found.append({**played[place], "role": role})
                continue
            with drawn():
                envs = trained.make_envs(1)
            recorder = None
            try:
                policy = trained.rebuild(envs)
                recorder = EpisodeRecorder(envs, policy, self._folder / f"step-{step}")
                player = Player(
                    envs, policy, max_steps=_MOST_STEPS, recorder=recorder, record_as=role
                )
                seed = self._seeds[place]
                again = self._play(player, seed, True)
            finally:
                if recorder is not None:
                    recorder.close()
                envs.close()
            played[place] = {
                "role": role,
                "seed": seed,
                "return": again.episodic_return,
                "file": f"step-{step}/{role}.json",
                # False for an environment that is not the same twice with one seed.
                "repeated": again.episodic_return == episodes[place].episodic_return,
            }
            found.append(played[place])
        return found

    def _keep_best(self, path: Path, step: int, score: float) -> None:
        if (score, step) >= self._best:
            self._best = score, step
            kept = self._folder / BEST / path.name
            checked_files.write_checked(kept, lambda file: file.write(path.read_bytes()))
            for other in kept.parent.glob(f"*{POLICY_SUFFIX}"):
                if other != kept:
                    checked_files.remove_checked(other)
            text = json.dumps({"step": step, "mean": score})
            atomic.write_text(self._folder / f"{BEST}.json", text)

    def _look(self) -> None:
        """End with the training process: its results could not be written down any more."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_EVERY_S
            if os.getppid() != self._parent:
                sys.exit(1)


def typical(episodes: Sequence[Episode]) -> dict[str, int]:
    """The places of the best, the median and the worst episode, and of the first.

    The first is played with the same seed in every evaluation of every run, so that two can be
    watched side by side. Of equals the first counts.
    """
    order = sorted(range(len(episodes)), key=lambda at: (-episodes[at].episodic_return, at))
    return {"best": order[0], "median": order[len(order) // 2], "worst": order[-1], "first": 0}


def _numbers(episodes: Sequence[Episode]) -> dict[str, object]:
    returns = [episode.episodic_return for episode in episodes]
    ends = mean_interval(returns)
    return {
        "mean": sum(returns) / len(returns),
        "low": None if ends is None else ends.low,
        "high": None if ends is None else ends.high,
        "returns": returns,
        "lengths": [episode.length for episode in episodes],
    }


def _points(sure: Sequence[Episode], sampled: Sequence[Episode]) -> dict[str, float]:
    """The points that this evaluation adds to the run's curves."""
    points = {EVALUATED_LENGTH: sum(episode.length for episode in sure) / len(sure)}
    for tag, episodes in ((EVALUATED_RETURN, sure), (SAMPLED_RETURN, sampled)):
        numbers = _numbers(episodes)
        named = zip((tag, *ends_of(tag)), ("mean", "low", "high"), strict=True)
        for name, key in named:
            value = numbers[key]
            if isinstance(value, float):
                points[name] = value
    return points


def _best_so_far(folder: Path) -> tuple[float, int]:
    try:
        known = json.loads((folder / f"{BEST}.json").read_text(encoding="utf-8"))
        return float(known["mean"]), int(known["step"])
    except (OSError, ValueError, KeyError):
        return float("-inf"), -1


def _used_s() -> float:
    """Processor time of this process and of those that encoded its videos."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the run's evaluations")
    parser.add_argument("--seed", type=int, required=True, help="the first held-out seed")
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument("--no-videos", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge until training is gone; the exit status is 1 if a policy could not be judged."""
    options = parse(arguments)
    # Ctrl+C reaches the whole group; training decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries greet on standard output, which belongs to the results alone.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    limit_threads(1)
    seeds = range(options.seed, options.seed + options.episodes)
    judge = Judge(options.folder, seeds, videos=not options.no_videos)
    while True:
        waiting = sorted((options.folder / WAITING).glob(f"*{POLICY_SUFFIX}"), key=step_of)
        if not waiting:
            if not sys.stdin.readline():
                return 0
            continue
        try:
            line = judge.judge(waiting[0])
        except (UsageError, CheckpointError) as error:
            print(json.dumps({"problem": str(error)}), file=answers, flush=True)
            return 1
        print(json.dumps(line, allow_nan=False), file=answers, flush=True)
        # Last: a policy whose result was not told is judged again, with the same result.
        waiting[0].unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
