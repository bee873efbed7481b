"""`make run`: a real training run end to end, with nothing to read beforehand."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

MOSAIC = str(Path(sys.executable).with_name("mosaic"))
SOLVED_AT = 475.0
FIRST_STEPS, MORE_STEPS, MOST_STEPS = 300_000, 200_000, 900_000


def mosaic(*words: str, check: bool = True) -> int:
    """Run a command, shown as a person would type it."""
    print(f"\n$ mosaic {' '.join(words)}", flush=True)
    code = subprocess.run([MOSAIC, *words], check=False).returncode
    if check and code != 0:
        sys.exit(code)
    return code


def ask(*words: str) -> Any:
    """A command's JSON answer."""
    done = subprocess.run([MOSAIC, *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip() or done.returncode)
    return json.loads(done.stdout)


def train_until_solved() -> tuple[dict[str, Any], dict[str, Any]]:
    """Train, evaluate, and train on from the checkpoint until CartPole is solved."""
    steps = FIRST_STEPS
    mosaic("train", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", str(steps))
    while True:
        run = ask("show", "last")
        print("\n$ mosaic eval last --episodes 20", flush=True)
        evaluation = ask("eval", run["run_id"], "--episodes", "20")["evaluation"]
        low, mean = evaluation["min"], evaluation["mean"]
        print(f"20 episodes: mean return {mean:.1f}, lowest {low:.1f} (solved at {SOLVED_AT:g})")
        if mean >= SOLVED_AT:
            return run, evaluation
        steps += MORE_STEPS
        if steps > MOST_STEPS:
            sys.exit(f"CartPole-v1 was not solved within {MOST_STEPS:,} steps")
        more = ("--resume", run["run_id"], "--total-timesteps", str(steps))
        mosaic("train", "ppo", *more)


def main() -> None:
    """The tour."""
    mosaic("up")
    run, evaluation = train_until_solved()
    directory = run["run_dir"]
    print(f"\nCartPole-v1 is solved: mean return {evaluation['mean']:.1f} over 20 episodes.")
    print("\nWhere everything is")
    print(f"  run directory  {directory}")
    print(f"  policy         {directory}/checkpoints/")
    print(f"  TensorBoard    {Path(sys.executable).with_name('tensorboard')} --logdir {directory}")
    print("\nWhat to try next")
    mine = MOSAIC if shutil.which("mosaic") is None else "mosaic"
    print(f"  {mine} runs                         every run so far")
    print(f"  {mine} show last                    the newest one in detail")
    print(
        f"  {mine} train dqn --env-id CartPole-v1 --detach   another algorithm, in the background"
    )
    print(f"  {mine} workers --algos cleanrl      what else can be trained")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        print("  make gui                            open the window")
    print(f"  {mine} down                         stop the daemon (runs keep running)")


if __name__ == "__main__":
    main()
