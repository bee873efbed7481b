"""Compares our scripts' speed with stable-baselines3's.

    python -m benchmarks.speed.run [ALGORITHM ...]

Runs alternate, ours and the peer's, three of each; the best of each counts, because noise on
a shared machine only ever slows. Speed is also taken by processor time, which other programs
on the machine hardly touch. Results: ``benchmarks/results/speed/<algorithm>-<env>.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.cases import CASES, Case

RESULTS = Path(__file__).resolve().parents[1] / "results" / "speed"
_ROUNDS = 3
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    """Run the cases of the algorithms named on the command line, or all of them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    for case in CASES:
        if not wanted or case.algorithm in wanted:
            record = compare(case)
            path = RESULTS / f"{case.algorithm}-{case.env_id}.json"
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            print(
                f"{case.algorithm} {case.env_id}: {record['ours']:.0f} against "
                f"{record['peer_sps']:.0f}, {record['ratio']:.2f} times by the wall clock, "
                f"{record['ratio_by_cpu']:.2f} by the processor's (target {case.target})",
                flush=True,
            )


def compare(case: Case) -> dict[str, Any]:
    """Alternate our runs and the peer's and keep the best of each."""
    ours, peers = [], []
    for _ in range(_ROUNDS):
        ours.append(_ours(case))
        peers.append(_peer(case))
    our_wall, our_cpu = (max(column) for column in zip(*ours, strict=True))
    peer_wall, peer_cpu = (max(column) for column in zip(*peers, strict=True))
    return {
        "algorithm": case.algorithm,
        "env_id": case.env_id,
        "steps": case.steps,
        "clock_starts_at": case.warm,
        "peer": f"stable-baselines3 {case.peer}",
        "ours": our_wall,
        "peer_sps": peer_wall,
        "ratio": round(our_wall / peer_wall, 2),
        "ours_per_cpu_second": our_cpu,
        "peer_per_cpu_second": peer_cpu,
        "ratio_by_cpu": round(our_cpu / peer_cpu, 2),
        "target": case.target,
        "all_ours": ours,
        "all_peer": peers,
        "flags": case.flags,
        "peer_options": case.peer_options,
        "load_average": os.getloadavg()[0],
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": f"python -m benchmarks.speed.run {case.algorithm}",
    }


def _ours(case: Case) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.speed.ours", case.algorithm, str(case.warm)]
    flags = {
        "env_id": case.env_id,
        "total_timesteps": case.steps,
        "num_envs": case.num_envs,
        **case.flags,
    }
    for name, value in flags.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    with tempfile.TemporaryDirectory() as folder:
        return _speeds([*command, "--run-dir", folder])


def _peer(case: Case) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.speed.peer", case.peer, case.env_id]
    sizes = [case.steps, case.num_envs, case.warm]
    command += [*map(str, sizes), json.dumps(case.peer_options)]
    return _speeds(command)


def _speeds(command: list[str]) -> list[float]:
    return [round(float(number), 1) for number in _run(command).splitlines()[-1].split()]


def _run(command: list[str]) -> str:
    environment = {**os.environ, **_ONE_THREAD}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
