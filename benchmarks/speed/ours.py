"""Times one of our scripts: `python -m benchmarks.speed.ours ALGORITHM WARM [flags]`.

Prints environment steps per second of the training loop from step `WARM` on, by the wall clock
and by the processor's. Imports, construction and what happens after the last step (the final
checkpoint) are left out, as they are on the peer's side.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Iterator

from cleanrl_worker.kit.run import Run


def main() -> None:
    """Run the script with a stopwatch around its loop."""
    algorithm, warm = sys.argv.pop(1), int(sys.argv.pop(1))
    steps = Run.steps

    def timed(self: Run, stride: int) -> Iterator[int]:
        began = None
        for step in steps(self, stride):
            if began is None and step >= warm:
                began = (step, time.perf_counter(), time.process_time())
            yield step
            ended = (step + stride, time.perf_counter(), time.process_time())
        done, by_wall, by_cpu = (end - begin for begin, end in zip(began, ended, strict=True))
        print(done / by_wall, done / by_cpu)

    Run.steps = timed
    runpy.run_module(f"cleanrl_worker.cleanrl.{algorithm}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
