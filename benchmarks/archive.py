"""Measures export and import: processor time, size and the daemon's memory, beside `tar` alone.

A run of the example worker gets a checkpoint of random weights, which hardly shrinks, and a log,
which does. It is exported and imported through two real daemons; `tar -cz` of the same directory,
which checks and redacts nothing, is measured in turn with it. Processor time is that of daemon and
client together.

    python benchmarks/archive.py [--megabytes 400] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.paths import Home
from mosaic.connect.starting import start_daemon

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
LOG_SHARE = 0.2


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = _measure(Path(folder), options.megabytes, options.rounds)
    best = {name: min(each[name] for each in rounds) for name in rounds[0]}
    document = {
        "command": f"python benchmarks/archive.py --megabytes {options.megabytes} "
        f"--rounds {options.rounds}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}",
        "load_average": os.getloadavg(),
        "best": best,
        "rounds": rounds,
    }
    (RESULTS / "archive.json").write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(best, indent=2))


def _measure(folder: Path, megabytes: int, count: int) -> list[dict[str, float]]:
    here, there = Home.locate(folder / "here"), Home.locate(folder / "there")
    with _daemon(here) as one, _daemon(there) as two:
        config = build.any_worker(build.Worker("example"), {"total_timesteps": 2})
        run = one.trainer.submit(config)
        run = one.trainer.wait(run.run_id, 60)
        _fill(Path(run.run_dir), megabytes)
        return [_round(one, two, run, folder) for _ in range(count)]


def _round(one: _daemon, two: _daemon, run: dict[str, Any], folder: Path) -> dict[str, float]:
    run_id, file, plain = run.run_id, folder / "run.tar.gz", folder / "plain.tar.gz"
    began, spent = time.monotonic(), one.spent()
    one.trainer.export_runs([run_id], file, overwrite=True)
    export_s, export_cpu = time.monotonic() - began, one.spent() - spent
    began, spent = time.monotonic(), two.spent()
    two.trainer.import_runs(file)
    import_s, import_cpu = time.monotonic() - began, two.spent() - spent
    two.trainer.delete(run_id, purge=True)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["tar", "-czf", plain, "-C", run.run_dir, "."], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "export_s": round(export_s, 2),
        "export_cpu_s": round(export_cpu, 2),
        "export_mb": round(file.stat().st_size / 2**20, 1),
        "import_s": round(import_s, 2),
        "import_cpu_s": round(import_cpu, 2),
        "daemon_peak_mb": round(max(one.peak_mb(), two.peak_mb()), 1),
        "tar_s": round(time.monotonic() - began, 2),
        "tar_cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "tar_mb": round(plain.stat().st_size / 2**20, 1),
    }


class _daemon:  # noqa: N801
    """A daemon of a home, its client, and what both have used."""

    def __init__(self, home: Home) -> None:
        self._process = psutil.Process(start_daemon(home, port=0).pid)
        self.trainer = TrainerClient.connect(home)

    def __enter__(self) -> _daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.trainer.shutdown("stop")
        self.trainer.close()
        self._process.wait(30)

    def spent(self) -> float:
        """Processor seconds of the daemon and of this process."""
        used = self._process.cpu_times()
        return float(used.user + used.system) + time.process_time()

    def peak_mb(self) -> float:
        """The most memory the daemon ever had."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


def _fill(run_dir: Path, megabytes: int) -> None:
    generator = np.random.default_rng(0)
    log_bytes = int(megabytes * LOG_SHARE) * 2**20
    with (run_dir / "checkpoints" / "step-1.state").open("wb") as weights:
        for _ in range(int(megabytes * (1 - LOG_SHARE))):
            weights.write(generator.standard_normal(2**18, dtype=np.float32).tobytes())
    with (run_dir / "logs" / "stderr.log").open("w") as log:
        step = 0
        while log.tell() < log_bytes:
            lines = (f"step {step + at} loss {at * 0.37 % 1:.6f}\n" for at in range(10_000))
            log.write("".join(lines))
            step += 10_000


if __name__ == "__main__":
    main()
