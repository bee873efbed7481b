"""How quick the workbench is: cold start, memory, the live view, millions of points, large logs.

    python benchmarks/gui.py            writes benchmarks/results/gui.json

Every figure is the best of several rounds: the machine may be busy, the program is not slower
than its best round. The window runs offscreen; a screen adds the time of its driver.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

import psutil
from gui_parts.charts import ChartBench
from gui_parts.logs import LogBench

RESULTS = Path(__file__).parent / "results" / "gui.json"
_USABLE = """
import os, sys, time
begun = time.perf_counter()
from gym_gui.app import make_application, open_window
from mosaic.config.paths import Home
application = make_application()
window = open_window(Home.locate(sys.argv[1]))
shown = None
form = window.launch.form("train")
while not (window.services.store.complete and form.described and form.env.names):
    application.processEvents()
    if shown is None and window.isVisible():
        shown = time.perf_counter() - begun
    time.sleep(0.001)
usable = time.perf_counter() - begun
import psutil
memory = psutil.Process().memory_info().rss / 2**20
print("RESULT", shown, usable, memory)
sys.stdout.flush()
window.close()
"""


def cold_start(home: Path, rounds: int) -> dict[str, float]:
    """Seconds from starting Python to a window that can be used, a daemon running already."""
    shown, usable, memory = [], [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _USABLE, str(home)], capture_output=True, text=True, check=True
        )
        wall = time.perf_counter() - begun
        words = next(x for x in done.stdout.splitlines() if x.startswith("RESULT")).split()
        shown.append(float(words[1]))
        usable.append(float(words[2]))
        memory.append(float(words[3]))
        print(f"start: shown {words[1]} usable {words[2]} whole process {wall:.2f}", flush=True)
    return {"shown_s": min(shown), "usable_s": min(usable), "memory_mb": min(memory)}


def live_view(rounds: int, seconds: float = 5.0) -> dict[str, float]:
    """Share of one core that showing 30 frames a second takes, whole window process."""
    from qtpy.QtWidgets import QApplication

    from gym_gui.app import make_services
    from gym_gui.background.frames import FrameFeed
    from gym_gui.widgets.frame_view import FrameView
    from mosaic.config.paths import Home

    application = QApplication.instance()
    assert isinstance(application, QApplication)
    with tempfile.TemporaryDirectory() as folder:
        services = make_services(Home.locate(folder), start_daemon=False)
        services.themes.apply("dark", 10)
        run_id = "01J00000000000000000000000"
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, run_id, str(seconds * rounds + 20)]
        )
        view = FrameView(services.themes)
        view.resize(800, 600)
        view.show()
        feed = FrameFeed(run_id, 30)
        frames = 0

        def show(image: Any, frame: Any) -> None:
            nonlocal frames
            frames += 1
            view.say("")
            view.show_image(image, "reward 1")

        feed.frame.connect(show)
        feed.start()
        best: dict[str, float] = {}
        me = psutil.Process()
        patience = time.monotonic() + 20
        while not frames:
            application.processEvents()
            time.sleep(0.005)
            if time.monotonic() > patience:
                raise TimeoutError("no frame came")
        for _ in range(rounds):
            frames, cpu, begun = 0, sum(me.cpu_times()[:2]), time.perf_counter()
            while time.perf_counter() - begun < seconds:
                application.processEvents()
                time.sleep(0.004)
            wall = time.perf_counter() - begun
            share = (sum(me.cpu_times()[:2]) - cpu) / wall * 100
            rate = frames / wall
            print(f"live view: {rate:.1f} frames/s, {share:.1f} % of a core", flush=True)
            if not best or share < best["core_percent"]:
                best = {"frames_per_s": rate, "core_percent": share}
        feed.stop()
        writer.terminate()
        writer.wait()
        view.close()
        services.close()
    return best


_WRITER = """
import sys, time
import numpy as np
from mosaic.fastlane import FrameMetrics, LaneWriter
picture = np.zeros((400, 600, 3), np.uint8)
end = time.monotonic() + float(sys.argv[2])
writer = LaneWriter(sys.argv[1])
number = 0
while time.monotonic() < end:
    number += 1
    picture[:, number % 600] = number % 256
    writer.publish(picture, FrameMetrics(last_reward=1.0, step=number))
    time.sleep(1 / 33)
writer.close()
"""


def main() -> int:
    """Measure and write the results; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--log-gigabytes", type=float, default=5.0)
    options = parser.parse_args()
    from mosaic.client import TrainerClient
    from mosaic.config.paths import Home

    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        home = Path(folder) / "home"
        client = TrainerClient.connect(Home.locate(home), start=True)
        try:
            started = cold_start(home, options.rounds)
            from gym_gui.app import make_application

            application = make_application()
            charts, frames = [], {}
            for points in (1_000_000, 5_000_000):
                bench = ChartBench(home, application, points)
                charts.append(bench.open_charts(options.rounds))
                frames = bench.frames()
                bench.close()
            view = live_view(options.rounds)
            log_bench = LogBench(home, application, options.log_gigabytes)
            log = log_bench.measure()
            log_bench.close()
        finally:
            client.shutdown("stop")
            client.close()
    del application
    results = {
        "command": "python benchmarks/gui.py",
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "load_average": os.getloadavg(),
        "cold_start": started,
        "live_view_30_hz": view,
        "open_charts": charts,
        "five_million_points": frames,
        "log": log,
        "targets": {"usable_s": 2.0, "memory_mb": 250, "core_percent": 15, "open_charts_ms": 200},
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
