"""Trains many algorithms side by side for some minutes and records what they reached.

    python -m benchmarks.learning.timed --minutes 15 --cuda --folder var/timed [algorithm ...]

For machines that are there only for minutes. On the CPU (without `--cuda`) other, smaller
settings are meant, and one algorithm at a time. When the time is over every run is stopped as a
user would stop it (it saves and ends); the record says how many steps that were. A run that
`--folder` holds already is resumed, so that a long one is trained in pieces; its record names them
all. `--train-only` leaves the evaluation and the record to a later piece, or to `--record-only`,
which trains nothing: so a run can be evaluated on another machine. Records go to
`benchmarks/results/learning/`, or to `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from benchmarks.learning.fingerprint import fingerprint
from benchmarks.learning.records import FOLDER, place_for
from benchmarks.learning.run import LAST_EPISODES, machine, read_curve, thin
from benchmarks.learning.timed_settings import ON_CPU, ON_GPU, TimedSetting
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running.evaluation import evaluate, open_policy
from cleanrl_worker.running.verification import resume_differences, smoke_flags

_GRACE_S = 60
_GAMES = 10
# Longer than any game here; ends those that a poor policy never loses.
_MAX_STEPS = 6000
_FINISHERS = 8
# The warm processes that check resuming are started by one thread at a time.
_CHECKING = Lock()


def main() -> None:
    """Train, stop, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to train")
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the records go")
    parser.add_argument("--cuda", action="store_true", help="train on the GPU")
    parser.add_argument("--beside", type=int, default=0, help="other busy processes there")
    halves = parser.add_mutually_exclusive_group()
    halves.add_argument("--train-only", action="store_true", help="record nothing yet")
    halves.add_argument("--record-only", action="store_true", help="train nothing more")
    parser.add_argument("algorithms", nargs="*", help="by default all that have a setting")
    options = parser.parse_args()
    settings = ON_GPU if options.cuda else ON_CPU
    algorithms = options.algorithms or list(settings)
    if not options.record_only:
        if options.minutes <= 0:
            parser.error("--minutes says how long to train, such as --minutes 15")
        _train({name: settings[name] for name in algorithms}, options)
    if options.train_only:
        return
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_FINISHERS) as pool:
        for algorithm in algorithms:
            pool.submit(_finish, algorithm, settings[algorithm], options)


def _train(settings: dict[str, TimedSetting], options: argparse.Namespace) -> None:
    """Train one more piece of every run, side by side, and note how it was done."""
    options.folder.mkdir(parents=True, exist_ok=True)
    cores = cycle(sorted(os.sched_getaffinity(0)))
    runs = []
    for algorithm, setting in settings.items():
        own = set(islice(cores, setting.cores))
        runs.append(_start(algorithm, setting, options, own))
    seconds = _wait(runs, options.minutes * 60)
    words = ["--cuda"] * options.cuda + ["--train-only"] * options.train_only
    words += ["--folder", "var/timed", *settings]
    piece = {
        "command": " ".join(
            [f"python -m benchmarks.learning.timed --minutes {options.minutes:g}", *words]
        ),
        "wall_s": round(seconds, 1),
        "side_by_side": len(runs) + options.beside,
        "machine": machine(),
    }
    for algorithm in settings:
        path = _pieces_of(algorithm, options.folder)
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        path.write_text(json.dumps([*before, piece]), encoding="utf-8")


def _pieces_of(algorithm: str, folder: Path) -> Path:
    """Where the pieces are noted that a run was trained in."""
    return folder / f"{algorithm}.pieces.json"


def _flags(setting: TimedSetting, cuda: bool) -> list[str]:
    """What the command line of the algorithm has."""
    values: dict[str, object] = {
        "env_id": setting.env_id,
        "total_timesteps": setting.total_timesteps,
        "seed": 1,
        **setting.flags,
    }
    flags = ["--cuda" if cuda else "--no-cuda"]
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        flags += [flag] if value is True else [flag, str(value)]
    return flags


def _start(
    algorithm: str, setting: TimedSetting, options: argparse.Namespace, cores: set[int]
) -> subprocess.Popen:
    folder, flags = options.folder, _flags(setting, options.cuda)
    run_dir = folder / algorithm
    place = ["--run-dir", str(run_dir), "--checkpoint-interval-s", "0"]
    if run_dir.exists():
        place += ["--resume", str(run_dir)]
    command = [sys.executable, "-m", f"cleanrl_worker.cleanrl.{algorithm}", *flags, *place]
    with (folder / f"{algorithm}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    os.sched_setaffinity(process.pid, cores)
    return process


def _wait(processes: list[subprocess.Popen], limit: float) -> float:
    """Let them train for the time they have; gives the seconds it took."""
    began = time.monotonic()
    while time.monotonic() - began < limit and any(p.poll() is None for p in processes):
        time.sleep(0.5)
    seconds = time.monotonic() - began
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    return seconds


def _finish(algorithm: str, setting: TimedSetting, options: argparse.Namespace) -> None:
    """Write the record, or say why there is none."""
    try:
        record = _record(algorithm, setting, options)
        path = place_for(algorithm, setting.env_id, options.out)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(
            f"{algorithm}: {record['training_return']['mean']} at {record['total_timesteps']:,} "
            f"steps, evaluation {record['evaluation']['mean']}, random {record['random_return']}, "
            f"SPS {record['sps']['mean']}",
            flush=True,
        )
    except Exception as error:
        log = (options.folder / f"{algorithm}.log").read_text(errors="replace")[-600:]
        print(f"{algorithm}: no record: {type(error).__name__} {error}\n{log}", flush=True)


def _record(algorithm: str, setting: TimedSetting, options: argparse.Namespace) -> dict[str, Any]:
    run_dir = options.folder / algorithm
    pieces = json.loads(_pieces_of(algorithm, options.folder).read_text(encoding="utf-8"))
    flags = " ".join(_flags(setting, options.cuda))
    steps, returns, sps = read_curve(run_dir / "tensorboard")
    episodes = evaluate(
        run_dir, episodes=_GAMES, seed=10_001, max_steps=_MAX_STEPS, deterministic=False
    )
    evaluated = np.array([episode.episodic_return for episode in episodes])
    smoke, half = smoke_flags(algorithm)
    with _CHECKING, tempfile.TemporaryDirectory() as folder:
        differences = resume_differences(algorithm, half, smoke, Path(folder))
    last = returns[-LAST_EPISODES:]
    return {
        "algorithm": algorithm,
        "env_id": setting.env_id,
        "total_timesteps": int(steps[-1]),
        "schedule": setting.total_timesteps,
        "flags": setting.flags,
        "seeds": [1],
        "training_return": _over_episodes(last),
        "evaluation": _over_episodes(evaluated),
        "evaluation_episodes": len(episodes),
        "random_return": round(_random_play(run_dir), 2),
        "code": fingerprint(algorithm),
        "resumes_exactly": not differences,
        "sps": {"mean": round(sps), "std": 0},
        "runs": [
            {
                "seed": 1,
                "command": f"python -m cleanrl_worker.cleanrl.{algorithm} {flags}",
                "wall_s": round(sum(piece["wall_s"] for piece in pieces), 1),
                "episodes": len(returns),
                "cores": setting.cores,
                "curve": thin(steps, returns),
            }
        ],
        "machine": pieces[-1]["machine"],
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "side_by_side": max(piece["side_by_side"] for piece in pieces),
        "command": "; ".join(piece["command"] for piece in pieces),
    }


def _over_episodes(returns: np.ndarray) -> dict[str, float]:
    """One seed only: the spread is that of its episodes."""
    return {"mean": round(float(returns.mean()), 2), "std": round(float(returns.std()), 2)}


def _random_play(run_dir: Path) -> float:
    """What random actions get in the same environments; each plays the same number of games."""
    envs = open_policy(run_dir).make_envs(_GAMES)
    try:
        return random_return(envs)
    finally:
        envs.close()


def random_return(envs: Any, games_each: int = 3) -> float:
    """The average return of random actions.

    Args:
        envs: a batch of environments.
        games_each: the games each plays; the first to finish would be the short ones.
    """
    rng = Random(0)
    envs.reset(seed=20_001)
    returns: list[list[float]] = [[] for _ in range(envs.num_envs)]
    for _ in range(_MAX_STEPS):
        info = envs.step(envs.sample_actions(rng))[-1]
        if info:
            ended = np.flatnonzero(info["ended"])
            for index, (score, _) in zip(ended, info["episodes"], strict=True):
                returns[index].append(score)
        if min(map(len, returns)) >= games_each:
            break
    return float(np.mean([score for games in returns for score in games[:games_each]]))


if __name__ == "__main__":
    main()
