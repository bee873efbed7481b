"""`make test`: the whole suite; any arguments go to pytest."""

import os
import subprocess
import sys

# One thread a process: the suite uses both cores by running tests side by side.
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> int:
    """Run pytest with four workers, keeping the tests of a file together.

    Twice as many as the cores: a third of the time of a test is waiting for a daemon or a window.
    Six took longer on two cores.
    """
    arguments = sys.argv[1:] or ["-n", "4", "--dist", "loadfile", "-q"]
    environment = {**os.environ, **SINGLE_THREADED}
    # Containers often set it. Thousands of processes of the suite would compile our modules again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if os.geteuid() == 0:
        environment["QTWEBENGINE_CHROMIUM_FLAGS"] = "--no-sandbox"
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
