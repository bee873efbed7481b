"""Charts with millions of points: how soon they are there, how long a frame takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np


class ChartBench:
    """A window on a run with a curve of many points."""

    def __init__(self, home: Path, application: Any, points: int) -> None:
        from gym_gui.app import open_window
        from mosaic.config.paths import Home

        self._application = application
        self._points = points
        place = Home.locate(home)
        self._run_id = _run_with_points(place, points)
        self._window = open_window(place, start_daemon=False)
        window = self._window
        self._spin(lambda: window.services.store.complete and window.launch.actors)
        window.show_layout("watch")
        window.runs_panel.show_run(self._run_id)
        self._spin(lambda: window.run_panel.shown)
        window.run_panel.open_tab("details")
        self._grid = window.run_panel.tab("charts").grid

    def close(self) -> None:
        """Close the window."""
        self._window.close()

    def _spin(self, condition: Any, limit_s: float = 30.0) -> None:
        begun = time.perf_counter()
        while not condition():
            self._application.processEvents()
            time.sleep(0.0005)
            if time.perf_counter() - begun > limit_s:
                raise TimeoutError("the curve never came")

    def _drawn(self) -> bool:
        return any(card.chart.points_shown() > 1000 for card in self._grid.cards.values())

    def open_charts(self, rounds: int) -> dict[str, Any]:
        """Milliseconds from opening the charts to the curve painted, nothing known before."""
        feeds, panel = self._window.services.feeds, self._window.run_panel
        taken = []
        for _ in range(rounds):
            panel.open_tab("details")
            self._application.processEvents()
            feeds.forget_resting()
            self._grid.show_curves({})
            self._spin(lambda: not feeds.curves(self._run_id) and not self._drawn())
            begun = time.perf_counter()
            panel.open_tab("charts")
            self._spin(self._drawn)
            self._application.processEvents()
            taken.append((time.perf_counter() - begun) * 1000)
            print(f"{self._points:,} points: {taken[-1]:.0f} ms", flush=True)
        return {
            "points": self._points,
            "best_ms": min(taken),
            "median_ms": sorted(taken)[len(taken) // 2],
            "rounds_ms": [round(one) for one in taken],
        }

    def frames(self, count: int = 120) -> dict[str, float]:
        """Milliseconds a frame while somebody pans, zooms, smooths and moves the crosshair."""
        card = next(iter(self._grid.cards.values()))
        chart, clock = card.chart, self._window.services.clock
        box = chart.plot.getViewBox()
        middle, width = self._points / 2, self._points / 4

        def pan(turn: int) -> None:
            box.setXRange(middle + turn * width / count, middle + width + turn * width / count)

        def zoom(turn: int) -> None:
            half = self._points / 2 * 0.97**turn
            box.setXRange(middle - half, middle + half)

        def smooth(turn: int) -> None:
            self._grid.smoothing.setValue(turn % 100)
            chart.draw()

        def cross(turn: int) -> None:
            clock.crosshair.emit(turn * self._points / count)

        found = {}
        for name, act in (("pan", pan), ("zoom", zoom), ("smooth", smooth), ("crosshair", cross)):
            taken = []
            for turn in range(count):
                begun = time.perf_counter()
                act(turn)
                self._application.processEvents()
                taken.append((time.perf_counter() - begun) * 1000)
            taken.sort()
            found[f"{name}_ms_median"] = taken[len(taken) // 2]
            found[f"{name}_ms_95_percent"] = taken[int(len(taken) * 0.95)]
            print(f"{name}: {taken[len(taken) // 2]:.1f} ms a frame", flush=True)
        return found


def _run_with_points(place: Any, points: int) -> str:
    from mosaic.client import TrainerClient
    from mosaic.runs.metrics import POINT

    with TrainerClient.connect(place) as client:
        asked = {"worker": "example", "algo": "darts", "env_id": "", "total_timesteps": 1}
        run = client.wait(client.submit(asked).run_id, 60)
    folder = Path(run.run_dir) / "metrics"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    data = np.zeros(points, POINT)
    data["step"] = np.arange(points)
    data["value"] = np.cumsum(np.random.default_rng(1).normal(size=points))
    data.tofile(folder / "charts%2Fepisodic_return.points")
    return str(run.run_id)
