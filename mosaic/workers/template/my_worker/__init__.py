"""A MOSAIC worker. This module is what discovery loads: keep heavy imports out of it."""

import json

from mosaic.workers import WorkerCapabilities


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    return WorkerCapabilities(
        worker_type="my_worker",
        display_name="my_worker",
        modes=("train", "resume_training", "policy_eval"),
        supports_pause=True,
        supports_checkpointing=True,
        algorithms="my_worker.catalog:algorithms",
        describe="my_worker.catalog:describe",
        environments="my_worker.catalog:environments",
        estimated_memory_mb=64,
        # Two runs for `mosaic check-worker`: one lasts until it is stopped, one ends by itself.
        check_config=json.dumps(
            {
                "long": {"algo": "bandit", "total_timesteps": 1_000_000_000},
                "short": {"algo": "bandit", "total_timesteps": 200},
            }
        ),
    )
