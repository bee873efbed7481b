"""CleanRL-style single-file algorithms as a MOSAIC worker.

This module is what discovery loads: it imports neither torch nor gymnasium.
"""

from __future__ import annotations

import json

from mosaic.workers import WorkerCapabilities

__version__ = "0.1.0"


def get_worker_metadata() -> WorkerCapabilities:
    """What the platform learns about this worker."""
    return WorkerCapabilities(
        worker_type="cleanrl",
        module="cleanrl_worker.cli",
        display_name="CleanRL Worker",
        supported_paradigms=("sequential",),
        env_families=(
            "gymnasium",
            "atari",
            "procgen",
            "mujoco",
            "dm_control",
            "minigrid",
            "babyai",
            "mosaic",
            # Packages of environments in JAX: `ondevice.package_ids` lists what they have.
            "xminigrid",
            "pgx",
            "jumanji",
            "brax",
            "phys2d",
            "tabular",
        ),
        action_spaces=("discrete", "continuous"),
        observation_spaces=("vector", "image"),
        max_agents=1,
        supports_checkpointing=True,
        supports_pause=True,
        requires_gpu=False,
        requires_live_telemetry=False,
        provides_fast_analytics=True,
        estimated_memory_mb=512,
        own_variables=("CLEANRL_BRIDGE_FD", "CLEANRL_ARGUMENTS_FD"),
        warm_modules=(
            "torch",
            "numpy",
            "gymnasium",
            "gymnasium.envs.classic_control",
            "cleanrl_worker.kit.script",
            "cleanrl_worker.running.evaluation",
            "cleanrl_worker.agents.minigrid",
            "cleanrl_worker.kit.fused",
            "cleanrl_worker.programs.evaluate",
            "cleanrl_worker.cli",
            "cleanrl_worker.runtime",
        ),
        heavy_algorithms=("*_ondevice",),
        heavy_modules=(
            # Where JAX finds LAPACK.
            "scipy.linalg",
            "cleanrl_worker.agents.jax_layers",
            "cleanrl_worker.ondevice.learner",
            "cleanrl_worker.ondevice.classic_control",
        ),
        modes=("train", "resume_training", "policy_eval", "interactive", "script", "verify"),
        options=("wandb", "video", "curriculum", "stop_at"),
        validator="cleanrl_worker.validation:validate_config",
        algorithms="cleanrl_worker.catalog:algorithms",
        algorithm_prefixes=("cleanrl:",),
        describe="cleanrl_worker.catalog:describe",
        environments="cleanrl_worker.catalog:environments",
        dry_run="cleanrl_worker.dry_run:dry_run_in_subprocess",
        check_config=json.dumps(
            {
                "long": {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 100_000_000},
                "short": {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 2048},
            }
        ),
        extras="cleanrl_worker.tools.install_extras",
        exporter="cleanrl_worker.tools.export",
        install_hint="make setup",
    )
