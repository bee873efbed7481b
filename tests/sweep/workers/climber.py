"""A worker whose curve is a straight line: `slope` says how steep, `step_ms` how quick."""

import time

from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.process import WorkerProcess


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    return WorkerCapabilities(worker_type="climber", module="climber")


def main() -> None:
    """Climb `total_timesteps` steps, or until told to stop."""
    with WorkerProcess.start("climber", {}) as worker:
        total = worker.config["total_timesteps"]
        extras = worker.config["extras"]
        for step in range(1, total + 1):
            if not worker.safe_point():
                break
            worker.emit.metrics(step, total, {"height": extras["slope"] * step})
            time.sleep(extras["step_ms"] / 1000)


if __name__ == "__main__":
    main()
