"""Times one of our scripts: ``python -m benchmarks.speed.ours ALGORITHM [flags]``.

Prints environment steps per second of the training loop, by the wall clock and by the
processor's, imports and construction left out.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Iterator

from cleanrl_worker.kit.run import Run


def main() -> None:
    """Run the script with a stopwatch around its loop."""
    algorithm = sys.argv.pop(1)
    steps = Run.steps

    def timed(self: Run, stride: int) -> Iterator[int]:
        wall, cpu = time.perf_counter(), time.process_time()
        first = self.step
        yield from steps(self, stride)
        done = self.step - first
        by_wall, by_cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(done / by_wall, done / by_cpu)

    Run.steps = timed
    runpy.run_module(f"cleanrl_worker.cleanrl.{algorithm}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
