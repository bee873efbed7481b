"""SPADE-BDI agents over tabular Q-learning, as a MOSAIC worker."""

import json

from mosaic.workers.capabilities import WorkerCapabilities


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    return WorkerCapabilities(
        worker_type="spade_bdi",
        module="spade_bdi_rl_worker.cli",
        display_name="Spade BDI Worker",
        env_families=("toy_text", "minigrid"),
        action_spaces=("discrete",),
        observation_spaces=("discrete", "grid"),
        max_agents=2,
        supports_checkpointing=True,
        supports_pause=True,
        requires_live_telemetry=True,
        estimated_memory_mb=200,
        modes=("train", "resume_training", "policy_eval", "bdi"),
        validator="spade_bdi_rl_worker.validation:problems",
        algorithms="spade_bdi_rl_worker:algorithms",
        describe="spade_bdi_rl_worker.catalog:describe",
        environments="spade_bdi_rl_worker.catalog:environments",
        dry_run="spade_bdi_rl_worker.catalog:dry_run",
        check_config=json.dumps(
            {
                "long": {"env_id": "FrozenLake-v1", "extras": {"episodes": 1_000_000}},
                "short": {"env_id": "FrozenLake-v1", "extras": {"episodes": 20}},
            }
        ),
        install_hint="make setup-spade",
    )


def algorithms() -> list[str]:
    """What `mosaic train` can be asked for.

    Here and not in the catalog, because the daemon asks for it when it starts: the catalog
    imports the settings, and with them pydantic.
    """
    return ["spade_bdi"]
