"""One run: `python -m my_worker.cli --config FILE`, started by the daemon or by hand."""

import hashlib
import json
import statistics
import time
from collections import deque
from pathlib import Path
from typing import Any

from mosaic.system import atomic
from mosaic.workers import WorkerProcess

from .catalog import ENVIRONMENT
from .learner import Bandit

CAPABILITIES = {"algo": "bandit", "supports_pause": True, "supports_checkpoint": True}


def main() -> None:
    """Do what the configuration asks."""
    with WorkerProcess.start("my_worker", CAPABILITIES) as worker:
        extras: dict[str, Any] = worker.config.get("extras", {})
        match extras.get("mode", "train"):
            case "policy_eval":
                evaluate(worker, _load(extras["policy_path"]), extras.get("eval_episodes", 10))
            case "resume_training":
                train(worker, _load(extras["checkpoint_path"]), extras.get("algo_params", {}))
            case _:
                parameters = extras.get("algo_params", {})
                epsilon = parameters.get("epsilon", 0.1)
                train(worker, Bandit(worker.config.get("seed", 1), epsilon), parameters)


def train(worker: WorkerProcess, bandit: Bandit, parameters: dict[str, Any]) -> None:
    """Learn until the last step, or until the run is stopped."""
    total = worker.config.get("total_timesteps") or parameters.get("total_timesteps", 2000)
    pause_s = parameters.get("step_ms", 0.0) / 1000
    rewards: deque[float] = deque(maxlen=100)

    def save() -> None:
        content = json.dumps(bandit.document()).encode()
        digest = hashlib.sha256(content).hexdigest()
        (worker.run_dir / "checkpoints").mkdir(exist_ok=True)
        # One file to continue from and one to evaluate; here they hold the same.
        for kind, name in (("policy", "policy"), ("full", "step")):
            path = f"checkpoints/{name}-{bandit.step}.json"
            # Whole or not at all: a run may be killed at any moment.
            atomic.write_bytes(worker.run_dir / path, content)
            worker.emit.checkpoint_saved(path, bandit.step, digest, kind)

    # A safe point blocks while the run is paused, and is False once it has to stop.
    while bandit.step < total and worker.safe_point(save):
        rewards.append(bandit.learn())
        worker.emit.metrics(bandit.step, total, {"episodic_return": statistics.mean(rewards)})
        time.sleep(pause_s)
    save()


def evaluate(worker: WorkerProcess, bandit: Bandit, episodes: int) -> None:
    """Play without learning, and write what `mosaic eval` prints."""
    seed = worker.config.get("seed", 1)
    returns = [bandit.play(seed + episode) for episode in range(episodes)]
    atomic.write_json(
        worker.run_dir / "eval_summary.json",
        {
            "env_id": ENVIRONMENT,
            "episodes": episodes,
            "mean": statistics.mean(returns),
            "std": statistics.pstdev(returns),
            "min": min(returns),
            "median": statistics.median(returns),
            "max": max(returns),
            "returns": returns,
        },
    )


def _load(given: str) -> Bandit:
    """The newest checkpoint of a folder, or the file itself."""
    path = Path(given)
    if path.is_dir():
        path = max(path.glob("step-*.json"), key=lambda file: int(file.stem.partition("-")[2]))
    return Bandit(**json.loads(path.read_text()))


if __name__ == "__main__":
    main()
