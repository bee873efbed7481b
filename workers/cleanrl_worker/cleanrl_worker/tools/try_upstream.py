"""Which scripts of upstream run here: `python -m cleanrl_worker.tools.try_upstream [DIR]`.

Each script is looked at as a run of it would be: its packages, its arguments. With `--steps` those
that are not refused are run, and the table says whether they ended and logged returns. Without a
folder, the package `cleanrl` of the package index is fetched into a temporary one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cleanrl_worker import foresight
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.resolution import HOME_VARIABLE, resolve, searching
from cleanrl_worker.running.schema import ScriptSchema
from mosaic.config.model import WorkerRunConfig

_PACKAGE = "cleanrl==1.2.0"
_LIMIT_S = 900.0
# So that a short run learns and does not ask for gigabytes, where a script has such a setting.
_SHORT = {"learning_starts": "200", "buffer_size": "2000", "num_envs": "2", "num_steps": "32"}
# They divide their environments among minibatches, or cannot use fewer of them.
_NOT_SHORT = {
    # A minibatch of one has no deviation to normalise by.
    "ppo_continuous_action": {"num_steps": "128"},
    "rpo_continuous_action": {"num_steps": "128"},
    "ppo_atari_lstm": {"num_envs": "4"},
    "ppo_atari_multigpu": {"num_envs": "4"},
    "ppo_pettingzoo_ma_atari": {"num_envs": "4"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a script that was run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="a checkout of upstream CleanRL")
    parser.add_argument("--steps", type=int, default=0, help="run each for so many steps")
    parser.add_argument("--only", nargs="+", default=[], help="names of scripts to look at")
    options = parser.parse_args(arguments)
    with _checkout(options.folder) as folder:
        failed = _table(folder, options.steps, set(options.only))
    return 1 if failed else 0


@contextmanager
def _checkout(folder: Path | None) -> Iterator[Path]:
    """The folder that was given, or the scripts of the package index."""
    if folder is not None:
        yield folder.expanduser().absolute()
        return
    with tempfile.TemporaryDirectory(prefix="upstream-") as place:
        # Scripts alone: what the package wants beside them would replace torch and Gymnasium.
        words = ["--no-deps", "--ignore-requires-python", "--target", place, _PACKAGE]
        pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, *words], check=True)
        yield Path(place)


def _table(folder: Path, steps: int, only: set[str]) -> bool:
    failed = False
    print("| script | environment | here | episodes logged |\n|---|---|---|---|")
    for path in sorted((folder / "cleanrl").glob("*.py") or folder.glob("*.py")):
        if path.stem.startswith("_") or (only and path.stem not in only):
            continue
        with searching(str(folder)):
            schema = resolve(f"cleanrl:{path.stem}").schema
        env_id = available(str(schema.arguments["env_id"].default)) if schema.arguments else ""
        refusal = _refusal(folder, path.stem)
        state, episodes = (refusal, "") if refusal else ("ready", "")
        if not refusal and steps:
            state, episodes = _run(folder, path.stem, schema, env_id, steps)
            failed = failed or state != "completed"
        print(f"| `{path.stem}` | {env_id} | {state} | {episodes} |", flush=True)
    return failed


def available(env_id: str) -> str:
    """An environment of the same name that this Gymnasium still makes; as given if unknown."""
    import gymnasium

    name, _, version = env_id.rpartition("-v")
    versions = [
        int(spec.version)
        for spec in gymnasium.registry.values()
        if spec.name == name and spec.namespace is None and spec.version is not None
    ]
    # MuJoCo's environments before version 4 need a library that no longer installs.
    old = name and versions and int(version) < 4 and "mujoco" in _entry_point(f"{name}-v5")
    return f"{name}-v{max(versions)}" if old else env_id


def _entry_point(env_id: str) -> str:
    import gymnasium

    spec = gymnasium.registry.get(env_id)
    return str(spec.entry_point) if spec else ""


def _refusal(folder: Path, name: str) -> str:
    with searching(str(folder)):
        script = resolve(f"cleanrl:{name}")
        config = CleanRLWorkerConfig.of(WorkerRunConfig(algo=script.name))
        return "; ".join(problem.message for problem in foresight.problems(config, script))


def _run(folder: Path, name: str, schema: ScriptSchema, env_id: str, steps: int) -> tuple[str, str]:
    short = {**_SHORT, **_NOT_SHORT.get(name, {})}
    own = [
        word
        for key, value in short.items()
        if key in schema.arguments and schema.arguments[key].default != 1
        for word in (f"--{key.replace('_', '-')}", value)
    ]
    words = ["--algo", f"cleanrl:{name}", "--env-id", env_id, "--total-timesteps", str(steps)]
    with tempfile.TemporaryDirectory(prefix="upstream-") as run_dir:
        done = subprocess.run(
            [sys.executable, "-m", "cleanrl_worker.cli", *words, "--run-dir", run_dir, "--", *own],
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
    last = events[-1] if events else {"reason": done.stderr.strip()[-300:] or "it said nothing"}
    state = "completed" if last.get("event") == "run_completed" else str(last.get("reason", ""))
    return re.sub(r"\s+", " ", state), f"{int(max(episodes, default=0))}"


if __name__ == "__main__":
    sys.exit(main())
