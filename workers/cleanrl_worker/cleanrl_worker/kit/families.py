"""Which package registers an environment's id with Gymnasium, and what to say where none does."""

from __future__ import annotations

import gymnasium as gym

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.package_ids import package_of
from mosaic.config.suggest import nearest


def is_grid(env_id: str) -> bool:
    """Whether the id is one of MiniGrid's worlds."""
    return env_id.startswith(("MiniGrid-", "BabyAI-"))


def register_family(env_id: str) -> None:
    """Import the package that registers an environment's family."""
    if is_grid(env_id):
        _import_family("minigrid", "minigrid")
    elif env_id.startswith("ALE/") or "NoFrameskip" in env_id:
        _import_family("ale_py", "atari")
    elif env_id.startswith("dm_control/"):
        _import_family("shimmy", "dm_control")
    elif env_id.startswith("mosaic/"):
        __import__("cleanrl_worker.games")
    elif package_of(env_id) or (env_id not in gym.registry and registry.only_here(env_id)):
        from cleanrl_worker.ondevice import device_game

        device_game.register(env_id)


def check_registered(env_id: str) -> None:
    """Refuse an id that names no environment, with the nearest one.

    Raises:
        UsageError: when the id is unknown.
    """
    try:
        gym.spec(env_id)
    except gym.error.Error as error:
        raise unknown_id(env_id, error) from None


def _import_family(module: str, extra: str) -> None:
    try:
        package = __import__(module)
    except ModuleNotFoundError:
        raise UsageError(
            f"This environment needs the package {module}; install it with: "
            f"python -m cleanrl_worker.tools.install_extras --set {extra}"
        ) from None
    if module == "ale_py":
        gym.register_envs(package)


def unknown_id(env_id: str, error: Exception) -> UsageError:
    """What to raise where an id names no environment, with the nearest one that does."""
    close = nearest(env_id, gym.registry.keys())
    hint = f" The nearest one is {close!r}." if close else ""
    return UsageError(f"There is no environment {env_id!r}: {error}{hint}")
