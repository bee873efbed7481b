"""The runs that the pictures show: all of them real."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from photographer import Photographer

_TWO_PHASES = """#!/usr/bin/env bash
# @description Learn quickly, then carefully
# @phases warm-up, main
# @total_timesteps 8192
set -eu
python -m cleanrl_worker.cli --algo ppo --env-id CartPole-v1 --total-timesteps 4096 \\
    --run-dir "$MOSAIC_RUN_DIR/warm-up"
python -m cleanrl_worker.cli --resume "$MOSAIC_RUN_DIR/warm-up" --total-timesteps 8192 \\
    --run-dir "$MOSAIC_RUN_DIR/main"
"""
_FAILING = """#!/usr/bin/env bash
# @description Reads recorded episodes that are not there
# @phases prepare, train
set -eu
echo "phase prepare: reading the index of recorded episodes"
cat > "$MOSAIC_RUN_DIR/prepare.py" <<'PY'
def read_index(path):
    with open(path) as index:
        return index.read().splitlines()


def prepare(folder):
    return [f"{folder}/{name}" for name in read_index(f"{folder}/episodes.index")]


print(len(prepare("recordings")), "episodes")
PY
cd "$MOSAIC_RUN_DIR"
# The file by its name alone, so that its frames name it as short.
python -c 'exec(compile(open("prepare.py").read(), "prepare.py", "exec"))'
"""


def config(algo: str, env_id: str, steps: int | None, **fields: Any) -> dict[str, Any]:
    """A run for the pictures."""
    worker = {"type": fields.pop("worker", "cleanrl")}
    inner: dict[str, Any] = {"algo": algo, "env_id": env_id, "seed": fields.pop("seed", 1)}
    if steps:
        inner["total_timesteps"] = steps
    inner["extras"] = fields.pop("extras", {})
    return {"artifacts": {}, "metadata": {"worker": {**worker, "config": inner}}, **fields}


def _script(camera: Photographer, folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.sh"
    path.write_text(text)
    extras = {"mode": "script", "script_path": str(path)}
    return camera.submit(config("script", "", None, extras=extras, run_name=name))


def train(camera: Photographer, checkout: Path) -> dict[str, str]:
    """Real runs of every kind; the pictures come later."""
    folder = checkout / "scripts"
    folder.mkdir()
    offline = {"environment": {"WANDB_MODE": "offline"}, "run_name": "tracked offline"}
    video = {"extras": {"capture_video": True}, "run_name": "dqn-cartpole"}
    spade = {"worker": "spade_bdi", "extras": {"episodes": 40}, "run_name": "bdi-frozenlake"}
    ids = {
        f"seed{seed}": camera.submit(
            config("ppo", "CartPole-v1", 30_000, seed=seed, run_name=f"ppo-cartpole-s{seed}")
        )
        for seed in (1, 2, 3)
    }
    ids["dqn"] = camera.submit(config("dqn", "CartPole-v1", 20_000, **video))
    ids["wandb"] = camera.submit(
        config("ppo", "CartPole-v1", 8_000, extras={"track_wandb": True}, **offline)
    )
    ids["script"] = _script(camera, folder, "two-phases", _TWO_PHASES)
    ids["failed"] = _script(camera, folder, "fails-on-purpose", _FAILING)
    ids["spade"] = camera.submit(config("spade_bdi", "FrozenLake-v1", None, **spade))
    for name, run_id in ids.items():
        ended = camera.reach(run_id, "TERM")
        print(f"{name}: {ended.outcome} {ended.reason or ''}", flush=True)
        expected = "failed" if name == "failed" else "completed"
        if ended.outcome != expected:
            raise RuntimeError(f"{name} should have {expected}: {ended.reason}")
    return ids


def evaluate(camera: Photographer, ids: dict[str, str]) -> None:
    """Let a trained policy act."""
    trained = Path(camera.services.store.runs[ids["seed1"]].run_dir)
    wanted = {
        "mode": "policy_eval",
        "policy_path": str(trained / "checkpoints"),
        "eval_episodes": 5,
        "capture_video": True,
    }
    ids["eval"] = camera.submit(
        config("ppo", "CartPole-v1", None, extras=wanted, run_name="eval of ppo-cartpole-s1")
    )
    camera.reach(ids["eval"], "TERM")


def keep_going(camera: Photographer, ids: dict[str, str]) -> None:
    """One run that is seen at work, and one that has to wait for it."""
    grid = {"fastlane_video_mode": "grid", "algo_params": {"num_envs": 4}}
    ids["live"] = camera.submit(
        config("ppo", "CartPole-v1", 50_000_000, extras=grid, run_name="ppo-live")
    )
    camera.reach(ids["live"], "EXEC")
    waiting = {"resources": {"cpus": {"requested": 2}}, "run_name": "waits for two slots"}
    ids["queued"] = camera.submit(config("ppo", "Acrobot-v1", 100_000, **waiting))


def sweep(camera: Photographer, ids: dict[str, str]) -> None:
    """A real search for settings; its study is with its first run."""
    known = set(camera.services.store.runs)
    command = [f"{sys.prefix}/bin/mosaic", "sweep", "ppo", "--env-id", "CartPole-v1"]
    command += ["--total-timesteps", "4096", "--param", "learning-rate=log:1e-4..1e-2"]
    command += ["--param", "num-steps=64,128,256", "--param", "gamma=0.9..0.999"]
    command += ["--trials", "10", "--parallel", "2", "--pruner", "none"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    camera.until(lambda: process.poll() is not None, "the sweep ends")
    if process.returncode:
        raise RuntimeError("the sweep failed")
    runs = camera.services.store.runs
    trials = [run_id for run_id in runs if run_id not in known]
    ids["sweep"] = next(one for one in trials if (Path(runs[one].run_dir) / "optuna.db").exists())
