"""Runs one of our scripts in slices, each only when it is asked for.

    turns.py ALGORITHM WARM SLICE ASKED ANSWERED [flags]

Two checkouts started this way take turns within a second of each other, so that what else the
machine does slows both alike. From step `WARM` on, a byte on the descriptor `ASKED` lets `SLICE`
steps pass; their processor time goes to `ANSWERED` as one line. The script ends when `ASKED`
closes. It is started by its path: the packages are those of the checkout on `PYTHONPATH`.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Iterator


def main() -> None:
    """Run the script with a gate in its loop."""
    # The folder of this file would hide packages of the same names.
    sys.path.pop(0)
    from cleanrl_worker.kit.run import Run

    algorithm = sys.argv.pop(1)
    warm, wanted, asked, answered = (int(sys.argv.pop(1)) for _ in range(4))
    steps = Run.steps

    def gated(self: Run, stride: int) -> Iterator[int]:
        until, began = warm, 0.0
        for step in steps(self, stride):
            if step >= until:
                if began:
                    seconds, passed = time.process_time() - began, step - until + wanted
                    os.write(answered, f"{seconds} {passed}\n".encode())
                else:
                    os.write(answered, b"ready\n")
                if not os.read(asked, 1):
                    # Without the last checkpoint: both sides end at once.
                    os._exit(0)
                until, began = step + wanted, time.process_time()
            yield step

    Run.steps = gated
    runpy.run_module(f"cleanrl_worker.cleanrl.{algorithm}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
