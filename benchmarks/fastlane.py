"""Measures what live frames cost: steps a second without them, unwatched, and watched.

One process holds two copies of an environment, one plain and one as the variant says, and steps
them in turn with the same actions, so that both see the same machine and the same moment. Each
pair of turns gives one ratio; the median over turns and launches is reported. Steps are counted
per second of processor time, so that what else the machine does counts for neither. Comparing
separate processes would measure where the system happened to put them: that differs by several
percent. The variant `plain` compares two plain copies: what it shows is noise.

    python benchmarks/fastlane.py [--seconds 0.3] [--turns 12] [--launches 5] [--env NAME]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.fastlane import FrameReader
from mosaic.runs.ids import new_run_id

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
WORKER = REPOSITORY / "workers" / "cleanrl_worker"
SITE = WORKER / "cleanrl_worker" / "fastlane" / "site"

ENVIRONMENTS = {
    "CartPole": "CartPole-v1",
    "MiniGrid": "MiniGrid-Empty-8x8-v0",
    "Breakout": "ALE/Breakout-v5",
}
VARIANTS = {
    "plain": {"CLEANRL_FASTLANE_MODE": "off"},
    "unwatched": {},
    "watched, share 2 %": {"CLEANRL_FASTLANE_SHARE": "0.02"},
    "watched, share 6 %": {"CLEANRL_FASTLANE_SHARE": "0.06"},
}

STEPPER = """
import sys, time
env_id, seconds, turns = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
if env_id.startswith("MiniGrid"):
    import minigrid
if env_id.startswith("ALE"):
    import ale_py
import gymnasium as gym
from cleanrl_worker.fastlane import untapped
with untapped():
    plain = gym.make(env_id)
variant = gym.make(env_id)
plain.action_space.seed(1)
actions = [plain.action_space.sample() for _ in range(64)]

def turn(env, seconds):
    steps, end, used = 0, time.perf_counter() + seconds, time.process_time()
    while time.perf_counter() < end:
        for action in actions:
            result = env.step(action)
            if result[2] or result[3]:
                env.reset()
        steps += 64
    return steps / (time.process_time() - used)

for env in (plain, variant):
    env.reset(seed=1)
    turn(env, 1.0)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(turns):
    print(turn(plain, seconds), turn(variant, seconds), flush=True)
variant.close()
"""


def main() -> None:
    """Run the measurement and write its results."""
    options = _options()
    chosen = {name: ENVIRONMENTS[name] for name in options.env or ENVIRONMENTS}
    results = {name: _measure(env_id, options) for name, env_id in chosen.items()}
    report = {
        "command": " ".join(["python", "benchmarks/fastlane.py", *sys.argv[1:]]),
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load_average": os.getloadavg()[0],
        "environments": results,
    }
    print(json.dumps(report, indent=2))
    if not options.env:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "fastlane.json").write_text(json.dumps(report, indent=2) + "\n")
        (RESULTS / "fastlane.md").write_text(_as_markdown(report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one turn")
    parser.add_argument("--turns", type=int, default=12, help="pairs of turns per launch")
    parser.add_argument("--launches", type=int, default=5, help="how often to start anew")
    parser.add_argument(
        "--env", choices=list(ENVIRONMENTS), action="append", help="only this one; writes nothing"
    )
    return parser.parse_args()


def _measure(env_id: str, options: argparse.Namespace) -> dict[str, Any]:
    samples: dict[str, list[Sample]] = {name: [] for name in VARIANTS}
    for _ in range(options.launches):
        for name, variables in VARIANTS.items():
            samples[name].append(_launch(env_id, variables, options))
    return {name: _summary(launches) for name, launches in samples.items()}


@dataclass
class Sample:
    """What one launch gave: plain and variant speed of each pair of turns, frames a second."""

    pairs: list[tuple[float, float]]
    frame_rate: float


def _launch(env_id: str, variables: dict[str, str], options: argparse.Namespace) -> Sample:
    run_id = new_run_id()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(SITE), str(WORKER)]))
    environment.update(OMP_NUM_THREADS="1", MOSAIC_RUN_ID=run_id, **variables)
    process = subprocess.Popen(
        [sys.executable, "-c", STEPPER, env_id, str(options.seconds), str(options.turns)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin, process.stdout, FrameReader(run_id) as reader:
        process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
        frames = _watch(reader, process) if "CLEANRL_FASTLANE_SHARE" in variables else 0
        speeds = [tuple(map(float, line.split())) for line in process.stdout]
    return Sample([(a, b) for a, b in speeds], frames / (options.seconds * options.turns))


def _watch(reader: FrameReader, process: subprocess.Popen[str]) -> int:
    """Watch until the process ends, on the other core, as a window would."""
    frames = 0
    while process.poll() is None:
        frames += reader.wait(0.05) is not None
    return frames


def _summary(launches: list[Sample]) -> dict[str, Any]:
    pairs = [pair for launch in launches for pair in launch.pairs]
    by_launch = [
        100 * (1 - statistics.median(b / a for a, b in launch.pairs)) for launch in launches
    ]
    return {
        "plain_steps_per_second": round(statistics.median(a for a, _ in pairs)),
        "steps_per_second": round(statistics.median(b for _, b in pairs)),
        "loss_percent": round(100 * (1 - statistics.median(b / a for a, b in pairs)), 2),
        "loss_percent_by_launch": [round(loss, 2) for loss in by_launch],
        "frames_per_second": round(statistics.median(x.frame_rate for x in launches), 1),
    }


def _as_markdown(report: dict[str, Any]) -> str:
    lines = [
        "# What live frames cost",
        "",
        f"`{report['command']}`, {report['when']}, {report['machine']}, "
        f"load average {report['load_average']:.1f}.",
        "",
        "Bare environment loops without any learning: the hardest case. Loss is the median over "
        "all pairs of turns of the steps a second lost against a plain copy of the environment in "
        "the same process; `plain` compares two plain copies and shows the noise, as do the losses "
        "of each launch.",
        "",
        "| environment | variant | steps/s | loss | of each launch | frames/s |",
        "|---|---|---|---|---|---|",
    ]
    for name, variants in report["environments"].items():
        lines += [
            f"| {name} | {variant} | {row['steps_per_second']:,} | {row['loss_percent']} % "
            f"| {', '.join(map(str, row['loss_percent_by_launch']))} "
            f"| {row['frames_per_second'] or ''} |"
            for variant, row in variants.items()
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
