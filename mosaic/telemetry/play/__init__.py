"""Human play as a run: a worker that holds the environment, and the clients that press its keys.

`keys` maps keys to actions, `worker` is the run's process, `client` talks to it from a window or a
terminal, `config` builds the configuration to submit. Only the worker imports Gymnasium.
"""

import json

from mosaic.workers.capabilities import WorkerCapabilities

WORKER = "human"


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    long = {"env_id": "CartPole-v1", "extras": {"script": "left x100000"}}
    short = {"env_id": "CartPole-v1", "extras": {"script": "left x5"}}
    return WorkerCapabilities(
        worker_type=WORKER,
        module="mosaic.telemetry.play.worker",
        display_name="Human-Only",
        requires_live_telemetry=True,
        supports_pause=True,
        estimated_memory_mb=200,
        check_config=json.dumps({"long": long, "short": short}),
        install_hint="pip install gymnasium[classic-control]",
    )
