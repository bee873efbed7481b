"""Prints every environment that can be made here, as JSON. Run in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable

from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.package_ids import kinds_of, package_ids

# Families whose environments all look alike: no need to build each one.
_ALIKE = {
    "atari": ("discrete", "image"),
    "minigrid": ("discrete", "grid"),
    "babyai": ("discrete", "grid"),
    "mujoco": ("continuous", "vector"),
    "dm_control": ("continuous", "vector"),
}
_VERSION = re.compile(r"^(?P<name>.+)-v(?P<number>\d+)$")


def family(env_id: str, entry_point: str) -> str:
    """The family an environment belongs to, from its id and where its class lives."""
    prefixes = {
        "ALE/": "atari",
        "MiniGrid-": "minigrid",
        "BabyAI-": "babyai",
        "dm_control/": "dm_control",
        "mosaic/": "mosaic",
    }
    for prefix, name in prefixes.items():
        if env_id.startswith(prefix):
            return name
    for name in ("classic_control", "box2d", "toy_text", "mujoco"):
        if f"envs.{name}" in entry_point:
            return name
    return "other"


def _register_everything() -> None:
    for module in ("ale_py", "minigrid", "shimmy", "cleanrl_worker.games"):
        with contextlib.suppress(ImportError):
            __import__(module)


def _kinds(env_id: str, name: str) -> tuple[str, str] | None:
    if name in _ALIKE:
        return _ALIKE[name]
    import gymnasium

    from cleanrl_worker.kit import observations
    from cleanrl_worker.kit.spaces import action_kind

    try:
        env = gymnasium.make(env_id, disable_env_checker=True)
    except Exception:
        # Third parties' code, which may raise anything; what cannot be made is not offered.
        return None
    try:
        encoded, _ = observations.encoder(env.observation_space)
        return action_kind(env.action_space), observations.kind(encoded)
    except Exception:
        # A space that no network of ours takes; the environment itself can be used.
        return action_kind(env.action_space), "other"
    finally:
        env.close()


def _newest_versions(registry: Iterable[str]) -> list[str]:
    """One id a name: the newest version."""
    newest: dict[str, int] = {}
    for env_id in registry:
        match = _VERSION.match(env_id)
        if match:
            name, number = match["name"], int(match["number"])
            newest[name] = max(newest.get(name, -1), number)
    return [f"{name}-v{number}" for name, number in newest.items()]


def list_environments() -> list[dict[str, str]]:
    """Every installed environment with its family and the kinds of its spaces."""
    import gymnasium

    _register_everything()
    found = []
    for env_id in sorted(_newest_versions(gymnasium.registry)):
        entry_point = str(gymnasium.registry[env_id].entry_point)
        name = family(env_id, entry_point)
        if name == "other" and (
            "ale_py" in entry_point or env_id.startswith(("phys2d/", "tabular/", "GymV"))
        ):
            continue
        kinds = _kinds(env_id, name)
        if kinds is not None:
            found.append(
                {"id": env_id, "family": name, "actions": kinds[0], "observations": kinds[1]}
            )
    for env_id in package_ids():
        if not registry.problem(env_id):
            actions, observations = kinds_of(env_id)
            prefix = env_id.partition("/")[0]
            found.append(
                {"id": env_id, "family": prefix, "actions": actions, "observations": observations}
            )
    atari = [item["id"] for item in found if item["family"] == "atari"]
    for env_id in atari:
        game = env_id.removeprefix("ALE/").rpartition("-")[0]
        legacy = {"family": "atari", "actions": "discrete", "observations": "image"}
        found.append({"id": f"{game}NoFrameskip-v4", **legacy})
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with contextlib.redirect_stdout(sys.stderr):
        listing = list_environments()
    json.dump(listing, sys.stdout)
