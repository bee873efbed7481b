"""How long compiled runs take by the clock on the wall; for a quiet machine.

    python -m benchmarks.ondevice_wall [--rounds 3]

Eight seeds on two cores: a short and a long run in turns, the difference in steps of all seeds over
the difference in seconds. A training of 500,000 steps as people start one: from its submission to a
running daemon until it is completed, the first time and later ones. The result is
`benchmarks/results/ondevice_wall.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ondevice_start import under_a_daemon
from mosaic.client import TrainerClient
from mosaic.config import build

RESULT = Path(__file__).parent / "results" / "ondevice_wall.json"
_SHORT, _LONG, _SEEDS = 51_200, 512_000, 8


def eight_seeds(steps: int) -> float:
    """The seconds of one run on two cores."""
    script = ("-m", "cleanrl_worker.cleanrl.ppo_ondevice", "--no-cuda")
    shape = ("--num-seeds", str(_SEEDS), "--torch-threads", "2", "--total-timesteps", str(steps))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *script, *shape, "--run-dir", f"{folder}/run"]
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - began


def half_a_million(client: TrainerClient, seed: int) -> float:
    """The seconds from the submission of a training to its end."""
    config = build.train(
        build.Worker("cleanrl"),
        "ppo_ondevice",
        env_id="CartPole-v1",
        total_timesteps=500_000,
        seed=seed,
    )
    began = time.monotonic()
    record = client.wait(client.submit(config).run_id)
    assert record.completed, record.outcome
    return time.monotonic() - began


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    # The first run of each length compiles; its seconds are not those of steps.
    eight_seeds(_SHORT)
    rates = []
    for _ in range(options.rounds):
        short, long = eight_seeds(_SHORT), eight_seeds(_LONG)
        rates.append(round(_SEEDS * (_LONG - _SHORT) / (long - short)))
        print("eight seeds, two cores:", rates[-1], file=sys.stderr, flush=True)
    with under_a_daemon() as client:
        seconds = [round(half_a_million(client, seed), 1) for seed in range(options.rounds + 1)]
    record = {
        "command": f"python -m benchmarks.ondevice_wall --rounds {options.rounds}",
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "eight_seeds_on_two_cores": {"unit": "steps a second, all seeds", "rates": rates},
        "half_a_million_steps": {
            "unit": "seconds from the submission to the end",
            "first": seconds[0],
            "later": seconds[1:],
            "median_later": statistics.median(seconds[1:]),
        },
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
