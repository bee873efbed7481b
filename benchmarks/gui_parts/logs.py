"""A log of gigabytes in the window: its end, following, searching, the first error, memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

_LINE = b"2026-11-15 08:00:00 INFO step %09d loss 0.%04d return %04d sps 12345\n"
_NEEDLE = b"WARN the needle in the haystack\n"
_TRACEBACK = b"""Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
RuntimeError: half way through
"""


class LogBench:
    """A window on a run with a very large log."""

    def __init__(self, home: Path, application: Any, gigabytes: float) -> None:
        from gym_gui.app import open_window
        from mosaic.client import TrainerClient
        from mosaic.config import build
        from mosaic.config.paths import Home

        self._application = application
        self._longest = 0.0
        self._memory = 0
        place = Home.locate(home)
        with TrainerClient.connect(place) as client:
            fields = {"total_timesteps": 10**9, "extras": {"step_ms": 500}}
            asked = build.any_worker(build.Worker("example"), fields)
            self._run_id = client.submit(asked).run_id
            while client.get(self._run_id).state != "EXEC":
                time.sleep(0.1)
            folder = Path(client.get(self._run_id).run_dir) / "logs"
        self._path = folder / "stderr.log"
        self._write(gigabytes)
        self._window = open_window(place, start_daemon=False)
        form = self._window.launch.form("train")
        self._until(lambda: self._window.services.store.complete and self._window.launch.actors)
        self._until(lambda: form.described and form.env.names)
        self._window.show_layout("watch")
        self._window.runs_panel.show_run(self._run_id)
        self._until(lambda: self._window.run_panel.shown)

    def _write(self, gigabytes: float) -> None:
        block = b"".join(_LINE % (n, n % 9999, n % 501) for n in range(60_000))
        rounds = int(gigabytes * 1e9 / len(block))
        with self._path.open("ab") as file:
            for turn in range(rounds):
                file.write(_TRACEBACK if turn == rounds // 2 else b"")
                file.write(_NEEDLE if turn == rounds - 1 else b"")
                file.write(block)

    def _until(self, condition: Callable[[], Any], limit_s: float = 200.0) -> float:
        """Seconds until something is true; the longest turn of the event loop is noted."""
        begun = time.perf_counter()
        while not condition():
            # Processor time of this thread: neighbours on the same core are not the window's fault.
            turn = time.thread_time()
            self._application.processEvents()
            self._longest = max(self._longest, time.thread_time() - turn)
            self._memory = max(self._memory, psutil.Process().memory_info().rss)
            time.sleep(0.002)
            if time.perf_counter() - begun > limit_s:
                raise TimeoutError("the log never came")
        return time.perf_counter() - begun

    def measure(self) -> dict[str, float]:
        """Do what people do with a log."""
        before = self._memory = psutil.Process().memory_info().rss
        self._longest = 0.0
        self._window.run_panel.open_tab("logs")
        logs = self._window.run_panel.tab("logs")

        def shows(text: str) -> bool:
            last = logs.text.document().lastBlock()
            return text in last.text() or text in last.previous().text()

        found = {"gigabytes": self._path.stat().st_size / 1e9}
        found["end_s"] = self._until(lambda: shows("step 000059999"))
        with self._path.open("ab") as file:
            file.write(b"appended just now\n")
        found["follow_s"] = self._until(lambda: shows("appended just now"))
        for name, pattern in (("word", "needle in"), ("regex", "need[l]e +in")):
            logs.search.setText(pattern)
            logs.restart()
            found[f"search_{name}_s"] = self._until(lambda: shows("the needle in the haystack"))
        logs.search.clear()
        logs.jump_to_error()
        found["first_error_s"] = self._until(
            lambda: "half way" in logs.text.textCursor().selectedText()
        )
        found["longest_turn_cpu_ms"] = self._longest * 1000
        found["grown_mb"] = (self._memory - before) / 1e6
        for name, value in found.items():
            print(f"log: {name} {value:.2f}", flush=True)
        return found

    def close(self) -> None:
        """End the run, close the window, remove the log."""
        from mosaic.client import TrainerClient

        with TrainerClient.connect(self._window.services.link.home) as client:
            client.cancel(self._run_id, grace_s=0.5)
        self._window.close()
        self._path.unlink()
