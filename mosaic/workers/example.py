"""A small worker that is not about reinforcement learning: it estimates π by throwing darts.

It shows the whole contract in one screen: capabilities, a validator, a loop with safe points,
metrics, a checkpoint. Run it with `mosaic submit` and worker type `example`.
"""

import hashlib
import json
import random
import time
from collections.abc import Mapping

from mosaic.system import atomic
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.process import WorkerProcess

WORKER = "example"
_THROWS_A_STEP = 1000


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    return WorkerCapabilities(
        worker_type=WORKER,
        module="mosaic.workers.example",
        display_name="Example: estimate π",
        supports_pause=True,
        supports_checkpointing=True,
        estimated_memory_mb=64,
        check_config=json.dumps(
            {
                "long": {"total_timesteps": 100_000, "extras": {"step_ms": 20}},
                "short": {"total_timesteps": 50},
            }
        ),
    )


def main() -> None:
    """Throw darts at a quarter circle, `total_timesteps` thousands of them."""
    capabilities = {"algo": "darts", "supports_pause": True, "supports_checkpoint": True}
    with WorkerProcess.start(WORKER, capabilities) as worker:
        total = worker.config.get("total_timesteps") or 1000
        pause_s = worker.config.get("extras", {}).get("step_ms", 0) / 1000
        generator = random.Random(worker.config.get("seed", 1))
        hits = 0
        step = 0

        def save() -> None:
            _save(worker, {"step": step, "hits": hits})

        while step < total and worker.safe_point(save):
            step += 1
            hits += sum(
                generator.random() ** 2 + generator.random() ** 2 < 1 for _ in range(_THROWS_A_STEP)
            )
            worker.emit.metrics(step, total, {"estimate": 4 * hits / (step * _THROWS_A_STEP)})
            time.sleep(pause_s)
        save()


def _save(worker: WorkerProcess, state: Mapping[str, int]) -> None:
    content = json.dumps(state).encode()
    folder = worker.run_dir / "checkpoints"
    folder.mkdir(exist_ok=True)
    atomic.write_bytes(folder / "darts.json", content)
    digest = hashlib.sha256(content).hexdigest()
    worker.emit.checkpoint_saved("checkpoints/darts.json", state["step"], digest, "full")


if __name__ == "__main__":
    main()
