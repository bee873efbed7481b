"""A language model as the agent: it reads what happens in words and answers with an action.

`describe/` turns environments into text, `play/` holds the pure rules of a game (prompts, answers,
budgets) and the loop, `embedded/` serves a model file on this machine, `model/` makes the small
model that is shipped. This module is what discovery loads: it imports none of them.
"""

import json

from mosaic.workers import WorkerCapabilities

WORKER = "llm"
# The trainings of the small model.
TRAININGS = ("llm_bc", "llm_grpo")


def get_worker_metadata() -> WorkerCapabilities:
    """What discovery learns about this worker."""
    own = {"frames": False, "history": 0}
    long = {"env_id": "FrozenLake-v1", "extras": {**own, "episodes": 1_000_000}}
    short = {"env_id": "FrozenLake-v1", "extras": {**own, "episodes": 2, "max_steps": 5}}
    return WorkerCapabilities(
        worker_type=WORKER,
        module="llm_worker.cli",
        display_name="LLM Multi-Step Worker",
        action_spaces=("discrete", "continuous", "multi_discrete", "text"),
        max_agents=2,
        supports_checkpointing=True,
        supports_pause=True,
        restarts_after_kill=True,
        requires_live_telemetry=True,
        modes=("train", "resume_training", "arena"),
        estimated_memory_mb=300,
        validator="llm_worker.validation:problems",
        algorithms="llm_worker:algorithms",
        describe="llm_worker.catalog:describe",
        environments="llm_worker.catalog:environments",
        dry_run="llm_worker.catalog:dry_run",
        check_config=json.dumps({"long": long, "short": short}),
        install_hint="make setup-llm",
    )


def algorithms() -> list[str]:
    """What `mosaic train` can be asked for.

    Here and not in the catalog, because the daemon asks for it when it starts: the catalog
    imports the settings, and with them pydantic.
    """
    return [WORKER, *TRAININGS]
