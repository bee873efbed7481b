"""What only the training process knows about its environments, for the run's provenance."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from cleanrl_worker.kit.types import Batch


def environment_facts(env_id: str, envs: Batch) -> dict[str, object]:
    """The wrapper chain, the spaces, and the ROM's checksum where there is a ROM.

    Args:
        env_id: The environment's id.
        envs: The batch that the loop steps.
    """
    facts: dict[str, object] = {
        "wrappers": _chain(envs),
        "num_envs": int(envs.num_envs),
        "observation_space": str(envs.single_observation_space)[:2000],
        "action_space": str(envs.single_action_space)[:2000],
    }
    rom = _rom(env_id) if "ale_py" in sys.modules else None
    if rom is not None:
        facts["rom"] = rom.name
        facts["rom_sha256"] = hashlib.sha256(rom.read_bytes()).hexdigest()
    return facts


def _chain(envs: object) -> str:
    inside = getattr(envs, "envs", None)
    if inside is None:
        return type(envs).__name__
    if isinstance(inside, list):
        return str(inside[0])
    return f"<{type(envs).__name__}{_chain(inside)}>"


def _rom(env_id: str) -> Path | None:
    from ale_py import roms

    from cleanrl_worker.kit.atari import game_of
    from cleanrl_worker.kit.errors import UsageError

    try:
        path = roms.get_rom_path(game_of(env_id)[0])
        return Path(path) if path else None
    except (UsageError, OSError, TypeError):
        # EnvPool's names are not ale_py's; then its own package version is what counts.
        return None
