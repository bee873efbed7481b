"""Human play as a run: a worker that holds the environment while a person presses the keys.

`keys` maps keys to actions and reads scripts, `world` is what a game is played in: `environment`,
or `policy_world` with a trained policy that plays too. `mosaic.workers.player_socket` is the way to
the player's window or terminal, `game` plays and records. This module is what discovery loads: it
does not import Gymnasium. The player's end is `mosaic.client.play`.
"""

import json

from mosaic.workers import WorkerCapabilities

WORKER = "human"


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    long = {"env_id": "CartPole-v1", "extras": {"script": "left x100000"}}
    short = {"env_id": "CartPole-v1", "extras": {"script": "left x5"}}
    return WorkerCapabilities(
        worker_type=WORKER,
        module="human_worker.cli",
        display_name="Human-Only",
        requires_live_telemetry=True,
        supports_pause=True,
        modes=("play", "take_over"),
        estimated_memory_mb=200,
        validator="human_worker.validation:problems",
        check_config=json.dumps({"long": long, "short": short}),
        install_hint="make setup",
    )
