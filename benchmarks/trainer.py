"""Measures the trainer: how fast it is there, how small it stays, what it costs a run.

    python benchmarks/trainer.py [--quick] [--only NAME]

Writes `benchmarks/results/trainer.json` and `trainer.md`. Every figure is of this machine at this
moment; whatever is compared is interleaved in one run.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import first_step
import numpy as np

from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.config.paths import Home
from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import DaemonNotRunningError
from mosaic.runs.eventlog import FILE_NAME, LogLine
from mosaic.runs.ids import new_run_id
from mosaic.system.processes import cpu_ticks

BENCHMARKS = Path(__file__).parent
RESULTS = BENCHMARKS / "results"
ENV_ID = "CartPole-v1"
MARK = 8_000
_DARTS: dict[str, Any] = {"algo": "darts", "total_timesteps": 10_000_000}
EXAMPLE = build.any_worker(build.Worker("example"), _DARTS)
SLOW = build.any_worker(build.Worker("example"), {**_DARTS, "extras": {"step_ms": 200}})

Figures = dict[str, Any]


@contextmanager
def daemon(root: Path, **settings: Any) -> Iterator[tuple[TrainerClient, int, float]]:
    """A daemon on a home, its pid, and the seconds until it answered."""
    environment = {key: val for key, val in os.environ.items() if not key.startswith("MOSAIC_")}
    for name, value in settings.items():
        environment[f"MOSAIC_SETTING_{name.upper()}"] = str(value).lower()
    # An installed MOSAIC has been compiled; a checkout in a container may be told not to.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = _plugin(root.parent)
    command = [sys.executable, "-m", "mosaic.trainer.daemon", "--home", str(root), "--port", "0"]
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment)
    client = _connect(Home.locate(root), process.pid)
    ready_s = time.monotonic() - began
    try:
        yield client, process.pid, ready_s
    finally:
        client.shutdown("stop")
        client.close()
        process.wait(timeout=60)


def _plugin(scratch: Path) -> str:
    """Where processes of this benchmark find the timed CartPole."""
    folder = scratch / "plugin"
    return f"{folder}{os.pathsep}{BENCHMARKS}" if folder.exists() else first_step.install(folder)


def _connect(home: Home, pid: int) -> TrainerClient:
    while True:
        try:
            if find_endpoint(home).pid == pid:
                return TrainerClient.connect(home)
        except DaemonNotRunningError:
            time.sleep(0.002)


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _cpu_s(pid: int) -> float:
    return cpu_ticks(pid) / os.sysconf("SC_CLK_TCK")


def _until(condition: Callable[[], Any], patience_s: float = 120.0) -> Any:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise TimeoutError("the benchmark waited in vain")


def _spread(values: list[float], digits: int = 3) -> Figures:
    return {
        "median": round(statistics.median(values), digits),
        "best": round(min(values), digits),
        "worst": round(max(values), digits),
        "n": len(values),
    }


def start_up(scratch: Path, quick: bool) -> Figures:
    """From the command to a daemon that answers, and its size."""
    direct, command, sizes, processor = [], [], [], []
    for number in range(3 if quick else 7):
        with daemon(scratch / f"ready{number}", warm_start=False) as (_, pid, ready_s):
            direct.append(ready_s)
            processor.append(_cpu_s(pid))
            sizes.append(_rss_mb(pid))
        command.append(_mosaic_up(scratch / f"up{number}"))
    return {
        "daemon_process_to_first_answer_s": _spread(direct),
        "its_processor_time_until_then_s": _spread(processor, 2),
        "mosaic_up_s": _spread(command),
        "resident_mb": _spread(sizes, 1),
        "target": "ready within 1 s, under 120 MB",
    }


def _mosaic_up(root: Path) -> float:
    program = Path(sys.executable).with_name("mosaic")
    environment = {**os.environ, "MOSAIC_HOME": str(root), "MOSAIC_SETTING_WARM_START": "false"}
    began = time.monotonic()
    subprocess.run(
        [program, "up", "--port", "0"], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    took = time.monotonic() - began
    subprocess.run([program, "down"], env=environment, check=True, stdout=subprocess.DEVNULL)
    return took


def load(scratch: Path, quick: bool) -> Figures:
    """The daemon's own share of a core with 2 runs at work and 20 waiting."""
    seconds = 8.0 if quick else 30.0
    with daemon(scratch / "load", warm_start=False, cpu_slots=2) as (client, pid, _):
        for _ in range(22):
            client.submit(SLOW)
        _until(lambda: client.resources().running == 2)
        time.sleep(2.0)
        before, began = _cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        share = (_cpu_s(pid) - before) / (time.monotonic() - began)
        figures = {
            "cpu_share_of_one_core_percent": round(100 * share, 2),
            "resident_mb": round(_rss_mb(pid), 1),
            "seconds": seconds,
            "target": "under 1 % of one core, under 120 MB",
        }
        _cancel_all(client)
    return figures


def _cancel_all(client: TrainerClient) -> None:
    for record in client.list_runs(page_size=500)[0]:
        if record.live:
            client.cancel(record.run_id, grace_s=0.0)


def burst(scratch: Path, quick: bool) -> Figures:
    """200 submits at once from 32 threads."""
    took, processor, accepted = [], [], []
    for number in range(1 if quick else 3):
        settings = {"warm_start": False, "cpu_slots": 1}
        with daemon(scratch / f"burst{number}", **settings) as (client, pid, _):
            # The one slot is taken: a run that starts meanwhile would share the processors, and
            # the sooner it does, the slower the burst would seem.
            client.submit(SLOW)
            _until(lambda: client.resources().running == 1)
            time.sleep(2.0)
            used, began = _cpu_s(pid), time.monotonic()
            with ThreadPoolExecutor(32) as pool:
                records = list(pool.map(lambda _: client.submit(EXAMPLE), range(200)))
            took.append(time.monotonic() - began)
            processor.append(_cpu_s(pid) - used)
            accepted.append(len({record.run_id for record in records}))
            _cancel_all(client)
    return {
        "all_accepted_s": _spread(took),
        "daemons_processor_time_s": _spread(processor, 2),
        "distinct_runs": accepted,
        "target": "200 distinct runs under 5 s",
    }


def many_runs(scratch: Path, quick: bool) -> Figures:
    """A home with 10,000 finished runs: first start, later starts, pages."""
    number = 2_000 if quick else 10_000
    home = Home.locate(scratch / "many")
    home.create()
    for position in range(number):
        _finished_run(home, position)
    with daemon(home.root, warm_start=False) as (client, _, rebuilt_s):
        total = client.list_runs()[2]
    starts = []
    for _ in range(3):
        with daemon(home.root, warm_start=False) as (client, pid, ready_s):
            starts.append(ready_s)
            pages = {
                "newest_first_ms": _pages(client),
                "by_name_ms": _pages(client, sort="run_name"),
                "search_ms": _pages(client, text="needle"),
            }
            size = _rss_mb(pid)
    return {
        "runs": total,
        "start_with_registry_lost_s": round(rebuilt_s, 2),
        "start_s": _spread(starts),
        "page_of_50": pages,
        "resident_mb": round(size, 1),
        "target": "a page of 50 under 50 ms, start under 2 s",
    }


def curve(scratch: Path, quick: bool) -> Figures:
    """A curve of 5 million points, thinned to what a chart can show."""
    from mosaic.runs.metrics import POINT

    number = 500_000 if quick else 5_000_000
    home = Home.locate(scratch / "curve")
    home.create()
    run_id = _finished_run(home, 0)
    points = np.zeros(number, POINT)
    points["step"] = np.arange(number)
    points["value"] = np.sin(points["step"] / 1e5)
    folder = home.run_dir(run_id) / "metrics"
    folder.mkdir()
    points.tofile(folder / "value.points")
    took = []
    with daemon(home.root, warm_start=False) as (client, pid, _):
        for _ in range(9):
            began = time.monotonic()
            batches = list(client.metrics(run_id, tags=["value"], max_points=2000))
            took.append(1000 * (time.monotonic() - began))
        size = _rss_mb(pid)
    return {
        "points": batches[-1].total_points,
        "points_sent": sum(len(batch.steps) for batch in batches),
        "first_call_ms": round(took[0], 1),
        "later_calls_ms": _spread(took[1:], 1),
        "resident_afterwards_mb": round(size, 1),
        "target": "under 200 ms",
    }


def _finished_run(home: Home, position: int) -> str:
    run_id = new_run_id()
    run_dir = home.run_dir(run_id)
    run_dir.mkdir()
    data = {
        "run_name": f"run {position}" + (" needle" if position % 997 == 0 else ""),
        "worker": "example",
        "module": "mosaic.workers.example",
        "algo": "darts",
        "env_id": "",
        "seed": position,
        "request": {"cpus": 1},
        "tags": ["generated"],
        "total_timesteps": 1000,
    }
    reserved = {"slots": ["cpu:0"], "epoch": 1, "boot_id": "generated"}
    story: list[tuple[str, dict[str, Any]]] = [
        ("submitted", data),
        ("slots_reserved", reserved),
        ("spawned", {"supervisor_pid": 1, "pid": 2}),
        ("worker_registered", {"capabilities": {"supports_pause": True}}),
        ("run_started", {}),
        ("completion_reported", {"summary": {}}),
        ("process_ended", {"code": 0, "signal": None, "detail": ""}),
        ("settled", {"outcome": "completed", "reason": "", "finished_at": 1.8e9}),
    ]
    lines = [
        LogLine(seq, kind, 1.7e9 + position, float(seq), fields)
        for seq, (kind, fields) in enumerate(story, start=1)
    ]
    text = "".join(json.dumps(asdict(line)) + "\n" for line in lines)
    (run_dir / FILE_NAME).write_text(text)
    (run_dir / "config.json").write_text("{}")
    return run_id


def _pages(client: TrainerClient, **query: Any) -> Figures:
    took, token = [], ""
    for _ in range(20):
        began = time.monotonic()
        _, token, _ = client.list_runs(page_size=50, page_token=token, **query)
        took.append(1000 * (time.monotonic() - began))
    return _spread(took, 1)


def _ppo(scratch: Path, name: str, steps: int) -> tuple[TrainRunConfig, Path]:
    path = scratch / f"{name}.json"
    config = build.train(
        build.Worker("cleanrl"),
        "ppo",
        env_id=ENV_ID,
        total_timesteps=steps,
        extras={"fastlane_video_mode": "off"},
        wishes=build.Wishes(
            name=name, environment={"FIRST_STEP_FILE": str(path), "FIRST_STEP_MARK": str(MARK)}
        ),
    )
    return config, path


def _moments(path: Path, count: int) -> list[dict[str, float]]:
    def read() -> list[dict[str, float]]:
        try:
            moments: list[dict[str, float]] = json.loads(path.read_text())
        except FileNotFoundError:
            return []
        return moments if len(moments) >= count else []

    found: list[dict[str, float]] = _until(read, 90.0)
    return found


def _alone(scratch: Path, name: str, steps: int, moments: int) -> tuple[float, list[Any]]:
    """The same algorithm file by itself; when it was started, and its moments."""
    path = scratch / f"{name}.json"
    environment = {
        **os.environ,
        "PYTHONPATH": _plugin(scratch),
        "FIRST_STEP_FILE": str(path),
        "FIRST_STEP_MARK": str(MARK),
        "OMP_NUM_THREADS": "1",
    }
    folder = scratch / name
    folder.mkdir()
    command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", "--env-id", ENV_ID]
    command += ["--total-timesteps", str(steps)]
    began = time.monotonic()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)
    found = _moments(path, moments)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return began, found


def submit_to_first_step(scratch: Path, quick: bool) -> Figures:
    """From the submit to the first environment step: warm, cold, and the script by itself."""
    warm, cold, alone = [], [], []
    with daemon(scratch / "first", cpu_slots=2) as (client, _, __):
        config, path = _ppo(scratch, "warmup", 2_000_000)
        _submit_and_step(client, config, path, cold=False)
        for number in range(2 if quick else 6):
            config, path = _ppo(scratch, f"warm{number}", 2_000_000)
            warm.append(_submit_and_step(client, config, path, cold=False))
            config, path = _ppo(scratch, f"cold{number}", 2_000_000)
            cold.append(_submit_and_step(client, config, path, cold=True))
            began, moments = _alone(scratch, f"alone{number}", 2_000_000, 1)
            alone.append(moments[0]["wall"] - began)
    return {
        "warm_s": _spread(warm),
        "cold_s": _spread(cold),
        "script_alone_s": _spread(alone),
        "cold_minus_alone_s": round(statistics.median(cold) - statistics.median(alone), 3),
        "target": "warm at most 0.3 s; cold at most the script's own start plus 0.3 s",
    }


def _submit_and_step(client: TrainerClient, config: Figures, path: Path, cold: bool) -> float:
    began = time.monotonic()
    run_id = client.submit(config, cold=cold).run_id
    moments = _moments(path, 1)
    client.cancel(run_id, grace_s=0.0)
    client.wait(run_id, timeout_s=60)
    return moments[0]["wall"] - began


def overhead(scratch: Path, quick: bool) -> Figures:
    """Steps a second through the whole path against the script by itself, in turns."""
    wall, cpu = [], []
    with daemon(scratch / "overhead", cpu_slots=2) as (client, _, __):
        for number in range(2 if quick else 8):
            order = ("path", "alone") if number % 2 else ("alone", "path")
            spent: dict[str, dict[str, float]] = {}
            for way in order:
                name = f"{way}{number}"
                if way == "path":
                    config, path = _ppo(scratch, name, 2_000_000)
                    run_id = client.submit(config).run_id
                    moments = _moments(path, 2)
                    client.cancel(run_id, grace_s=0.0)
                    client.wait(run_id, timeout_s=60)
                else:
                    _, moments = _alone(scratch, name, 2_000_000, 2)
                spent[way] = {key: moments[1][key] - moments[0][key] for key in ("wall", "cpu")}
            wall.append(spent["path"]["wall"] / spent["alone"]["wall"])
            cpu.append(spent["path"]["cpu"] / spent["alone"]["cpu"])
    return {
        "time_through_the_path_over_alone": _spread(wall),
        "processor_time_through_the_path_over_alone": _spread(cpu),
        "steps_measured": MARK * 4,
        "target": "within 2 %",
    }


MEASUREMENTS = {
    "start_up": start_up,
    "load": load,
    "burst": burst,
    "many_runs": many_runs,
    "curve": curve,
    "submit_to_first_step": submit_to_first_step,
    "overhead": overhead,
}


def _write(results: Figures) -> None:
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    RESULTS.mkdir(exist_ok=True)
    document = {"machine": machine, "results": results}
    (RESULTS / "trainer.json").write_text(json.dumps(document, indent=2) + "\n")
    lines = [
        "# The trainer's figures",
        "",
        f"On {machine}. `load_average` is the machine's at the end of a measurement: above the",
        "number of cores, others were at work and seconds are longer than they need be.",
        "",
    ]
    for name, values in results.items():
        doc = (MEASUREMENTS[name].__doc__ or "").strip().splitlines()[0]
        lines += [f"## {name}", "", doc, "", "| figure | value |", "|---|---|"]
        for key, value in values.items():
            shown = json.dumps(value) if isinstance(value, dict | list) else str(value)
            lines.append(f"| {key} | {shown} |")
        lines.append("")
    (RESULTS / "trainer.md").write_text("\n".join(lines))


def main() -> None:
    """Measure what was asked and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append")
    options = parser.parse_args()
    stored = RESULTS / "trainer.json"
    results = json.loads(stored.read_text())["results"] if stored.exists() else {}
    for name in options.only or MEASUREMENTS:
        scratch = Path(tempfile.mkdtemp(prefix="mosaic-bench-"))
        try:
            figures = MEASUREMENTS[name](scratch, options.quick)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        quick = " --quick" if options.quick else ""
        figures["command"] = f"python benchmarks/trainer.py --only {name}{quick}"
        figures["load_average"] = round(os.getloadavg()[0], 2)
        results[name] = figures
        print(name, json.dumps(figures), flush=True)
        _write({item: results[item] for item in MEASUREMENTS if item in results})


if __name__ == "__main__":
    main()
