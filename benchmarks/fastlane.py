"""Measures what live frames cost: steps a second without them, unwatched, and watched.

One process holds two copies of an environment, one plain and one as the variant says, and steps
them in turn with the same actions, so that both see the same machine and the same moment. Each
pair of turns gives one ratio; the median over turns and launches is reported. Steps are counted
per second of processor time, and the report says how much of a processor the process had: much
less than all of one means that the machine was busy, and then the frames of others, and theirs of
ours, cost more than they would. Comparing separate processes would measure where the system
happened to put them: that differs by several percent. The variant `plain` compares two plain
copies: what it shows is noise.

    python benchmarks/fastlane.py [--seconds 0.5] [--turns 8] [--launches 4] [--env NAME]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

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
env_id, seconds = sys.argv[1], float(sys.argv[2])
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
    steps, begin, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < begin + seconds:
        for action in actions:
            result = env.step(action)
            if result[2] or result[3]:
                env.reset()
        steps += 64
    used = time.process_time() - used
    return steps / used, used / (time.perf_counter() - begin)

plain.reset(seed=1)
variant.reset(seed=1)
turn(plain, 1.0)
# Long enough for a watched environment to have drawn everything once.
turn(variant, 4.0)
print("ready", flush=True)
for _ in sys.stdin:
    print(*turn(plain, seconds), *turn(variant, seconds), flush=True)
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
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one turn")
    parser.add_argument("--turns", type=int, default=8, help="pairs of turns per launch")
    parser.add_argument("--launches", type=int, default=4, help="how often to start anew")
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
    """What one launch gave: plain and variant speed of each pair of turns, frames of each."""

    pairs: list[tuple[float, float]] = field(default_factory=list)
    frame_rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def _launch(env_id: str, variables: dict[str, str], options: argparse.Namespace) -> Sample:
    run_id = new_run_id()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(SITE), str(WORKER)]))
    environment.update(OMP_NUM_THREADS="1", MOSAIC_RUN_ID=run_id, **variables)
    process = subprocess.Popen(
        [sys.executable, "-c", STEPPER, env_id, str(options.seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    watched = "CLEANRL_FASTLANE_SHARE" in variables
    sample = Sample()
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin, process.stdout, _Watcher(run_id, watched) as watcher:
        process.stdout.readline()
        for _ in range(options.turns):
            before = watcher.frames
            process.stdin.write("go\n")
            process.stdin.flush()
            plain, had, variant, variant_had = map(float, process.stdout.readline().split())
            sample.processor += [had, variant_had]
            sample.pairs.append((plain, variant))
            sample.frame_rates.append((watcher.frames - before) / options.seconds)
    return sample


class _Watcher:
    """Watches a run from a thread of this process, on the other core, as a window would."""

    def __init__(self, run_id: str, watched: bool) -> None:
        self.frames = 0
        self._run_id = run_id
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch) if watched else None

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with FrameReader(self._run_id) as reader:
            while not self._over.is_set():
                self.frames += reader.wait(0.05) is not None


def _summary(launches: list[Sample]) -> dict[str, Any]:
    pairs = [pair for launch in launches for pair in launch.pairs]
    by_launch = [
        100 * (1 - statistics.median(b / a for a, b in launch.pairs)) for launch in launches
    ]
    rates = [rate for launch in launches for rate in launch.frame_rates]
    return {
        "plain_steps_per_second": round(statistics.median(a for a, _ in pairs)),
        "steps_per_second": round(statistics.median(b for _, b in pairs)),
        "loss_percent": round(100 * (1 - statistics.median(b / a for a, b in pairs)), 2),
        "loss_percent_by_launch": [round(loss, 2) for loss in by_launch],
        "frames_per_second": round(statistics.mean(rates), 1),
        "processor_percent": round(
            100 * statistics.mean(had for launch in launches for had in launch.processor)
        ),
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
        "of each launch. Steps are counted per second of processor time; where the process had "
        "much less than a whole processor, the machine was busy and watching cost more than it "
        "does on a quiet one.",
        "",
        "| environment | variant | steps/s | loss | of each launch | frames/s | processor |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, variants in report["environments"].items():
        lines += [
            f"| {name} | {variant} | {row['steps_per_second']:,} | {row['loss_percent']} % "
            f"| {', '.join(map(str, row['loss_percent_by_launch']))} "
            f"| {row['frames_per_second'] or ''} | {row['processor_percent']} % |"
            for variant, row in variants.items()
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
