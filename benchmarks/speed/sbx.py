"""Compares our JAX scripts' speed, once compiled, with sbx (stable-baselines3 in JAX).

    python -m benchmarks.speed.sbx [ALGORITHM ...]

Runs alternate, ours and the peer's, three of each; the best of each counts, because noise on
a shared machine only ever slows. Both run on one core and nowhere else. The clock starts at a
step by which every function has been compiled.

Results: `benchmarks/results/speed/<algorithm>-<env>.json`.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "speed"
_ROUNDS = 3
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


@dataclass(frozen=True)
class Case:
    """One comparison: the same environment and hyperparameters on both sides.

    Attributes:
        algorithm: our script.
        peer: the class in sbx.
        env_id: the environment.
        steps: environment steps of a run.
        warm: the step at which the clock starts.
        flags: our flags that differ from the defaults.
        options: the peer's arguments for the same hyperparameters.
    """

    algorithm: str
    peer: str
    env_id: str
    steps: int
    warm: int
    flags: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


_DQN = {
    "learning_rate": 2.5e-4,
    "buffer_size": 10_000,
    "learning_starts": 1000,
    "batch_size": 128,
    "train_freq": 10,
    "gradient_steps": 1,
    "target_update_interval": 500,
    "policy_kwargs": {"net_arch": [120, 84]},
}
_ACTOR_CRITIC = {
    "learning_rate": 3e-4,
    "buffer_size": 100_000,
    "learning_starts": 200,
    "batch_size": 256,
    "train_freq": 1,
    "gradient_steps": 1,
    "policy_kwargs": {"net_arch": [256, 256]},
}
_FLAGS = {"learning_starts": 200, "buffer_size": 100_000}

CASES = [
    Case("dqn_jax", "DQN", "CartPole-v1", 25_000, 5000, {"learning_starts": 1000}, _DQN),
    # The peer's DDPG updates the actor with every update of the critic.
    Case(
        "ddpg_continuous_action_jax",
        "DDPG",
        "Pendulum-v1",
        2000,
        500,
        {**_FLAGS, "policy_frequency": 1},
        {**_ACTOR_CRITIC, "qf_learning_rate": 3e-4},
    ),
    Case("td3_continuous_action_jax", "TD3", "Pendulum-v1", 2000, 500, _FLAGS, _ACTOR_CRITIC),
]


class Stopwatch:
    """Environment steps per second from a given step on, by the wall clock and the processor's."""

    def __init__(self, warm: int) -> None:
        self._warm = warm
        self._began: tuple[int, float, float] | None = None

    def look(self, step: int) -> None:
        """Start when the step has been reached."""
        if self._began is None and step >= self._warm:
            self._began = (step, time.perf_counter(), time.process_time())

    def report(self, step: int) -> None:
        """Print both speeds."""
        first, wall, cpu = self._began
        steps = step - first
        print(steps / (time.perf_counter() - wall), steps / (time.process_time() - cpu))


def time_ours(case: Case) -> None:
    """Run our script with a stopwatch in its loop."""
    from cleanrl_worker.kit.run import Run

    watch, steps = Stopwatch(case.warm), Run.steps

    def timed(self: Run, stride: int) -> Iterator[int]:
        for step in steps(self, stride):
            watch.look(step)
            yield step
        watch.report(self.step)

    Run.steps = timed
    flags = {"env_id": case.env_id, "total_timesteps": case.steps, **case.flags}
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [case.algorithm, "--run-dir", folder]
        for name, value in flags.items():
            sys.argv += [f"--{name.replace('_', '-')}", str(value)]
        runpy.run_module(f"cleanrl_worker.cleanrl.{case.algorithm}", run_name="__main__")


def time_peer(case: Case) -> None:
    """Run the peer with a stopwatch as its callback."""
    import sbx
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(case.env_id, 1, seed=1)
    model = getattr(sbx, case.peer)("MlpPolicy", envs, seed=1, **case.options)
    watch = Stopwatch(case.warm)

    def look(state: dict[str, Any], _: dict[str, Any]) -> bool:
        watch.look(state["self"].num_timesteps)
        return True

    model.learn(case.steps, callback=look)
    watch.report(model.num_timesteps)


def compare(case: Case) -> dict[str, Any]:
    """Alternate our runs and the peer's and keep the best of each."""
    speeds: dict[str, list[list[float]]] = {"ours": [], "peer": []}
    for _ in range(_ROUNDS):
        for side, runs in speeds.items():
            runs.append(_measure(side, case))
    best = {
        side: [max(column) for column in zip(*runs, strict=True)] for side, runs in speeds.items()
    }
    return {
        **asdict(case),
        "peer": f"sbx {case.peer}",
        "ours": best["ours"][0],
        "peer_sps": best["peer"][0],
        "ratio": round(best["ours"][0] / best["peer"][0], 2),
        "ratio_by_cpu": round(best["ours"][1] / best["peer"][1], 2),
        "target": 1.5,
        "all_runs": speeds,
        "load_average": os.getloadavg()[0],
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.speed.sbx {case.algorithm}",
    }


def stay_on_one_core() -> None:
    """Leave XLA no second core: one thread for its products is not one for everything."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _measure(side: str, case: Case) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.speed.sbx", f"--{side}", case.algorithm]
    environment = {**os.environ, **_ONE_THREAD}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return [round(float(number), 1) for number in done.stdout.splitlines()[-1].split()]


def main() -> None:
    """Compare the algorithms named on the command line, or all of them."""
    cases = {case.algorithm: case for case in CASES}
    sides = {"--ours": time_ours, "--peer": time_peer}
    if len(sys.argv) > 1 and sys.argv[1] in sides:
        stay_on_one_core()
        return sides[sys.argv[1]](cases[sys.argv[2]])
    for name in sys.argv[1:] or cases:
        record = compare(cases[name])
        path = RESULTS / f"{name}-{record['env_id']}.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(
            f"{name}: {record['ours']:.0f} against {record['peer_sps']:.0f}, "
            f"{record['ratio']:.2f} times by the wall clock, {record['ratio_by_cpu']:.2f} by the "
            f"processor's (target {record['target']})",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
