"""Compares our scripts' speed with stable-baselines3's.

    python -m benchmarks.speed.run [--compile] [ALGORITHM ...]

Runs alternate, ours and the peer's, three of each; the best of each counts, because noise on
a shared machine only ever slows. Speed is also taken by processor time, which other programs
on the machine hardly touch. `--compile` measures our scripts with that flag; the result stands
beside the plain one. Results: `benchmarks/results/speed/<algorithm>-<env>.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.speed.cases import CASES, ENVIRONMENT, Case

RESULTS = Path(__file__).resolve().parents[1] / "results" / "speed"
_ROUNDS = 3
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    """Run the cases of the algorithms named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="measure with --compile")
    parser.add_argument("algorithms", nargs="*", default=[case.algorithm for case in CASES])
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if case.algorithm not in options.algorithms:
            continue
        if not options.compile:
            record = {**_about(case), **compare(case, []), "target": case.target}
            if case.peer == ENVIRONMENT:
                record["our_environment_alone"] = max(_floor(case, "kit") for _ in range(_ROUNDS))
            _keep(case, record)
        elif case.compiled_target is not None:
            compiled = {**compare(case, ["--compile"]), "target": case.compiled_target}
            _keep(case, {"compiled": compiled})


def compare(case: Case, extra: list[str]) -> dict[str, Any]:
    """Alternate our runs, with extra flags, and the peer's, and keep the best of each."""
    ours, peers = [], []
    for _ in range(_ROUNDS):
        ours.append(_ours(case, extra))
        peers.append(_peer(case))
    our_wall, our_cpu = (max(column) for column in zip(*ours, strict=True))
    peer_wall, peer_cpu = (max(column) for column in zip(*peers, strict=True))
    return {
        "ours": our_wall,
        "peer_sps": peer_wall,
        "ratio": round(our_wall / peer_wall, 2),
        "ours_per_cpu_second": our_cpu,
        "peer_per_cpu_second": peer_cpu,
        "ratio_by_cpu": round(our_cpu / peer_cpu, 2),
        "all_ours": ours,
        "all_peer": peers,
        "load_average": os.getloadavg()[0],
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(["python -m benchmarks.speed.run", *extra, case.algorithm]),
    }


def our_flags(case: Case) -> list[str]:
    """The command line of our script for a case."""
    flags = {
        "env_id": case.env_id,
        "total_timesteps": case.steps,
        "num_envs": case.num_envs,
        **case.flags,
    }
    return [part for name, value in flags.items() for part in (_flag(name), str(value))]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _about(case: Case) -> dict[str, Any]:
    return {
        "algorithm": case.algorithm,
        "env_id": case.env_id,
        "steps": case.steps,
        "clock_starts_at": case.warm,
        "peer": case.peer if case.peer == ENVIRONMENT else f"stable-baselines3 {case.peer}",
        "flags": case.flags,
        "peer_options": case.peer_options,
    }


def _keep(case: Case, news: dict[str, Any]) -> None:
    """Write what was measured over what the record said before, and say it."""
    path = RESULTS / f"{case.algorithm}-{case.env_id}.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**record, **news}, indent=1) + "\n", encoding="utf-8")
    result = news.get("compiled", news)
    print(
        f"{case.algorithm} {case.env_id}{' compiled' if 'compiled' in news else ''}: "
        f"{result['ours']:.0f} against {result['peer_sps']:.0f}, {result['ratio']:.2f} times by "
        f"the wall clock, {result['ratio_by_cpu']:.2f} by the processor's (target "
        f"{result['target']})",
        flush=True,
    )


def _ours(case: Case, extra: list[str]) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.speed.ours", case.algorithm, str(case.warm)]
    with tempfile.TemporaryDirectory() as folder:
        return _speeds([*command, *our_flags(case), *extra, "--run-dir", folder])


def _peer(case: Case) -> list[float]:
    if case.peer == ENVIRONMENT:
        return _floor(case, "library")
    command = [sys.executable, "-m", "benchmarks.speed.peer", case.peer, case.env_id]
    sizes = [case.steps, case.num_envs, case.warm]
    return _speeds([*command, *map(str, sizes), json.dumps(case.peer_options)])


def _floor(case: Case, which: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.speed.floor", which, case.env_id]
    return _speeds([*command, str(case.steps), str(case.num_envs)])


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
