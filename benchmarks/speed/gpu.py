"""Measures scripts on a GPU: as they are, with `--cudagraphs`, with `--compile`.

    python -m benchmarks.speed.gpu --name h200 [case ...]

One run after the other, each for some seconds; the steps a second are those the script itself
reports every two seconds, the median of the second half, so that start and compiling are left
out. Results: `benchmarks/results/speed/<name>.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.learning.run import machine

RESULTS = Path(__file__).resolve().parents[1] / "results" / "speed"
_REPORTED = re.compile(r"global_step=(\d+)/.*SPS=(\d+)")
_BREAKOUT = ["--env-id", "BreakoutNoFrameskip-v4"]
_CHEETAH = ["--env-id", "HalfCheetah-v5", "--learning-starts", "500"]
_GRAPHS, _BOTH = ["--cudagraphs"], ["--compile", "--cudagraphs"]
_PLAIN_S, _COMPILED_S = 14, 50

# name: algorithm, settings, the flags to compare
CASES: dict[str, tuple[str, list[str], list[list[str]]]] = {
    "ppo_atari-8": ("ppo_atari", [*_BREAKOUT, "--num-envs", "8"], [[], _GRAPHS, _BOTH]),
    "ppo_atari-32": ("ppo_atari", [*_BREAKOUT, "--num-envs", "32"], [[], _GRAPHS]),
    "sac-HalfCheetah": ("sac_continuous_action", _CHEETAH, [[], _GRAPHS, _BOTH]),
    "td3-HalfCheetah": ("td3_continuous_action", _CHEETAH, [[], _GRAPHS]),
    "scan-8": ("ppo_atari_envpool_xla_jax_scan", ["--env-id", "Breakout-v5"], [[]]),
}


def main() -> None:
    """Measure the cases named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="the name of the result")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the result")
    parser.add_argument("--cpu", action="store_true", help="measure without the GPU")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    measured = []
    for name in options.cases:
        algorithm, settings, variants = CASES[name]
        for flags in variants:
            measured.append(measure(algorithm, settings, flags, cuda=not options.cpu))
            record = {
                "measured": measured,
                "machine": machine(),
                "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "command": f"python -m benchmarks.speed.gpu --name {options.name}",
            }
            path = options.out / f"{options.name}.json"
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def measure(algorithm: str, settings: list[str], flags: list[str], *, cuda: bool) -> dict[str, Any]:
    """Run a script for some seconds and read its own reports."""
    words = [*settings, *flags, "--cuda" if cuda else "--no-cuda"]
    with tempfile.TemporaryDirectory() as folder:
        place = ["--run-dir", folder, "--checkpoint-interval-s", "0"]
        command = [sys.executable, "-m", f"cleanrl_worker.cleanrl.{algorithm}", *words, *place]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        compiles = "--compile" in flags or "jax" in algorithm
        try:
            output, _ = process.communicate(timeout=_COMPILED_S if compiles else _PLAIN_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate()
    reports = [int(sps) for _, sps in _REPORTED.findall(output)][:-1]
    half = reports[len(reports) // 2 :]
    result = {
        "command": f"python -m cleanrl_worker.cleanrl.{algorithm} {' '.join(words)}",
        "sps": round(statistics.median(half)) if half else None,
        "reports": reports,
    }
    if not half:
        result["output"] = output[-800:]
    print(json.dumps(result), flush=True)
    return result


if __name__ == "__main__":
    main()
