"""Compares the speed of two checkouts of the project: ours then and ours now.

    python -m benchmarks.speed.versions OLD_CHECKOUT [--rounds N] [ALGORITHM ...]

Both checkouts run on this interpreter; only the path differs. The two run at the same time and
take turns, a slice of a few hundred milliseconds each, so that what else the machine does slows
both alike. A slice is timed by the processor's clock. The ratio is the median over all slices of
the old one's time over the new one's. Results: `benchmarks/results/speed/versions.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.speed.cases import CASES, ENVIRONMENT
from benchmarks.speed.run import RESULTS

_HERE = Path(__file__).resolve().parents[2]
_SLICES = 20
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# A ratio below this is called slower.
_ALLOWED = 0.95


@dataclass(frozen=True)
class Timed:
    """One script to time: its environment, its steps, and the step at which the clock starts."""

    algorithm: str
    env_id: str
    steps: int
    warm: int
    flags: dict[str, object] = field(default_factory=dict)


def _from_cases() -> list[Timed]:
    return [
        Timed(c.algorithm, c.env_id, c.steps, c.warm, {"num_envs": c.num_envs, **c.flags})
        for c in CASES
        if c.peer != ENVIRONMENT
    ]


_BREAKOUT = "BreakoutNoFrameskip-v4"
_POOL_BREAKOUT = "Breakout-v5"
_REPLAY = {"learning_starts": 400, "buffer_size": 3000}
# One turn of the loop with the defaults, 8 games of 128 steps, is a slice; where that takes ten
# seconds, the slices are shorter.
_TURN = 1024
_LEVELS: dict[str, object] = {"num_envs": 16, "num_steps": 64, "num_minibatches": 4}
# A short past, so that the student's own games are timed. Learning starts a hundred steps into
# them: older versions drew from the empty memory of the first one, without end.
_TAUGHT: dict[str, object] = {
    "train_teacher_steps": 500,
    "teacher_steps": 300,
    "teacher_eval_episodes": 1,
    "offline_steps": 100,
    "learning_starts": 500,
    "buffer_size": 3000,
}
_FURTHER = [
    Timed("rpo_continuous_action", "HalfCheetah-v5", 6144, 2048),
    Timed("dqn_atari", _BREAKOUT, 1600, 600, _REPLAY),
    Timed("c51_atari", _BREAKOUT, 1600, 600, _REPLAY),
    Timed("rainbow_atari", _BREAKOUT, 1200, 600, _REPLAY),
    Timed("sac_atari", "BeamRiderNoFrameskip-v4", 800, 500, {**_REPLAY, "batch_size": 64}),
    Timed("ppo_atari_lstm", _BREAKOUT, 3072, 1024),
    Timed("dqn_jax", "CartPole-v1", 20_000, 4000, {"learning_starts": 1000}),
    Timed("c51_jax", "CartPole-v1", 15_000, 4000, {"learning_starts": 1000}),
    Timed("td3_continuous_action_jax", "HalfCheetah-v5", 1500, 500, {"learning_starts": 200}),
    Timed("ddpg_continuous_action_jax", "HalfCheetah-v5", 1500, 500, {"learning_starts": 200}),
    Timed("dqn_atari_jax", _BREAKOUT, 1600, 600, _REPLAY),
    Timed("c51_atari_jax", _BREAKOUT, 1600, 600, _REPLAY),
    *(
        Timed(algorithm, _POOL_BREAKOUT, 21 * _TURN, _TURN)
        for algorithm in (
            "ppo_atari_envpool",
            "pqn_atari_envpool",
            "pqn_atari_envpool_lstm",
        )
    ),
    *(
        Timed(algorithm, _POOL_BREAKOUT, 21 * 256, 256, {"num_steps": 32})
        for algorithm in ("ppo_atari_envpool_xla_jax", "ppo_atari_envpool_xla_jax_scan")
    ),
    Timed(
        "ppo_rnd_envpool",
        _POOL_BREAKOUT,
        21 * 256,
        256,
        {"num_envs": 8, "num_steps": 32, "num_iterations_obs_norm_init": 1},
    ),
    # The clock is that of one process.
    Timed("ppo_atari_multigpu", _BREAKOUT, 21 * _TURN, _TURN, {"world_size": 1}),
    Timed("ppo_pettingzoo_ma_atari", "pong_v3", 21 * _TURN, _TURN, {"num_envs": 8}),
    Timed("ppo_procgen", "starpilot", 21 * _TURN, _TURN, _LEVELS),
    Timed("ppg_procgen", "starpilot", 21 * 256, 256, {**_LEVELS, "num_steps": 16}),
    Timed("qdagger_dqn_atari_impalacnn", _BREAKOUT, 800, 600, _TAUGHT),
    Timed("qdagger_dqn_atari_jax_impalacnn", _BREAKOUT, 800, 600, _TAUGHT),
]


def main() -> None:
    """Compare the algorithms named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="a checkout of the older version")
    parser.add_argument("algorithms", nargs="*")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes so many times")
    options = parser.parse_intermixed_args()
    path = RESULTS / "versions.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for case in [*_from_cases(), *_FURTHER]:
        if options.algorithms and case.algorithm not in options.algorithms:
            continue
        record = compare(case, options.old.resolve(), options.rounds)
        kept[f"{case.algorithm} {case.env_id}"] = record
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        verdict = "" if record["ratio"] >= _ALLOWED else "  SLOWER"
        print(
            f"{case.algorithm:28} {case.env_id:24} {record['ratio']:.3f} {verdict}",
            flush=True,
        )


def compare(case: Timed, old: Path, rounds: int) -> dict[str, object]:
    """Let old and new take turns, and keep the ratio with the speeds it comes from."""
    then: list[float] = []
    now: list[float] = []
    by_round = []
    for _ in range(rounds):
        pairs = _take_turns(case, old)
        by_round.append(round(statistics.median(new / before for before, new in pairs), 3))
        then += [before for before, _ in pairs]
        now += [new for _, new in pairs]
    ratios = [new / before for before, new in zip(then, now, strict=True)]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "rounds": by_round,
        "slices": len(ratios),
        "old_per_cpu_second": round(statistics.median(then), 1),
        "new_per_cpu_second": round(statistics.median(now), 1),
        "load_average": round(os.getloadavg()[0], 1),
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.speed.versions OLD_CHECKOUT {case.algorithm}",
    }


def _take_turns(case: Timed, old: Path) -> list[tuple[float, float]]:
    """The speeds of old and new, slice by slice; who comes first alternates too."""
    with _Side(case, old) as before, _Side(case, _HERE) as after:
        before.wait()
        after.wait()
        pairs = []
        for turn in range(_SLICES):
            if turn % 2:
                new = after.slice()
                pairs.append((before.slice(), new))
            else:
                pairs.append((before.slice(), after.slice()))
        return pairs


class _Side:
    """One checkout's script, which runs only while a slice is asked of it."""

    def __init__(self, case: Timed, checkout: Path) -> None:
        self._folder = tempfile.TemporaryDirectory()
        child_asked, self._ask = os.pipe()
        answer, child_answers = os.pipe()
        self._answers = os.fdopen(answer, encoding="ascii")
        wanted = max(1, (case.steps - case.warm) // _SLICES)
        # Enough steps for all slices, also where a turn of the loop is longer than a slice.
        values = {"env_id": case.env_id, "total_timesteps": 20 * case.steps, **case.flags}
        flags = [part for name, value in values.items() for part in (_flag(name), str(value))]
        gate = map(str, (case.warm, wanted, child_asked, child_answers))
        paths = [checkout, checkout / "workers" / "cleanrl_worker"]
        environment = {**os.environ, **_THREADS, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        script = str(Path(__file__).with_name("turns.py"))
        self._process = subprocess.Popen(
            [sys.executable, script, case.algorithm, *gate, *flags, "--run-dir", self._folder.name],
            env=environment,
            cwd=checkout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(child_asked, child_answers),
        )
        os.close(child_asked)
        os.close(child_answers)

    def __enter__(self) -> _Side:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ask)
        self._process.wait()
        self._answers.close()
        self._folder.cleanup()

    def wait(self) -> str:
        """The next line of the script."""
        if not (line := self._answers.readline()):
            errors = self._process.stderr.read().decode() if self._process.stderr else ""
            raise SystemExit(f"{self._process.args} failed:\n{errors[-2000:]}")
        return line

    def slice(self) -> float:
        """Let one slice pass: its steps for each second of the processor."""
        os.write(self._ask, b".")
        seconds, steps = map(float, self.wait().split())
        return steps / seconds


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


if __name__ == "__main__":
    main()
