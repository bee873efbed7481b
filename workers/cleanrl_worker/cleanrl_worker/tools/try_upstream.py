"""Which scripts of upstream run here: `python -m cleanrl_worker.tools.try_upstream DIR`.

Each script is looked at as a run of it would be: its packages, its arguments. With `--steps` those
that are not refused are run, and the table says whether they ended and logged returns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cleanrl_worker import foresight
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.resolution import HOME_VARIABLE, resolve, searching
from mosaic.config.model import WorkerRunConfig

_LIMIT_S = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a script that was run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of upstream CleanRL")
    parser.add_argument("--steps", type=int, default=0, help="run each for so many steps")
    options = parser.parse_args(arguments)
    folder = options.folder.expanduser().absolute()
    failed = False
    print("| script | here | episodes logged |\n|---|---|---|")
    for path in sorted((folder / "cleanrl").glob("*.py") or folder.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        refusal = _refusal(folder, path.stem)
        state, episodes = (refusal, "") if refusal else ("ready", "")
        if not refusal and options.steps:
            state, episodes = _run(folder, path.stem, options.steps)
            failed = failed or state != "completed"
        print(f"| `{path.stem}` | {state} | {episodes} |", flush=True)
    return 1 if failed else 0


def _refusal(folder: Path, name: str) -> str:
    with searching(str(folder)):
        script = resolve(f"cleanrl:{name}")
        config = CleanRLWorkerConfig.of(WorkerRunConfig(algo=script.name))
        return "; ".join(problem.message for problem in foresight.problems(config, script))


def _run(folder: Path, name: str, steps: int) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="upstream-") as run_dir:
        words = ["--algo", f"cleanrl:{name}", "--total-timesteps", str(steps)]
        done = subprocess.run(
            [sys.executable, "-m", "cleanrl_worker.cli", *words, "--run-dir", run_dir],
            env={**os.environ, HOME_VARIABLE: str(folder)},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event"')]
    episodes = [
        event["values"].get("episodes", 0) for event in events if event["event"] == "metrics"
    ]
    last = events[-1] if events else {"reason": "it said nothing"}
    state = "completed" if last.get("event") == "run_completed" else str(last.get("reason", ""))
    return state, f"{int(max(episodes, default=0))}"


if __name__ == "__main__":
    sys.exit(main())
