"""Environments by family, narrowed to what an algorithm can act on."""

from collections.abc import Iterable, Mapping
from typing import Any

_TITLES = {
    "classic_control": "Classic control",
    "box2d": "Box2D",
    "toy_text": "Toy text",
    "mujoco": "MuJoCo",
    "dm_control": "DeepMind Control",
    "minigrid": "MiniGrid",
    "babyai": "BabyAI",
    "atari": "Atari",
    "procgen": "Procgen",
    "envpool": "EnvPool",
}
_ORDER = tuple(_TITLES)


def family_title(family: str) -> str:
    """A family as people call it."""
    return _TITLES.get(family, family.replace("_", " ").capitalize() or "Other")


def fitting(
    environments: Iterable[Mapping[str, str]], description: Mapping[str, Any]
) -> list[Mapping[str, str]]:
    """The environments whose actions and observations an algorithm can handle."""
    actions = set(description.get("actions") or ())
    observations = set(description.get("observations") or ())
    return [
        item
        for item in environments
        if (not actions or item["actions"] in actions)
        and (not observations or item["observations"] in observations)
    ]


def by_family(environments: Iterable[Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    """Ids under the title of their family, families in a sensible order."""
    groups: dict[str, list[str]] = {}
    for item in environments:
        groups.setdefault(item["family"], []).append(item["id"])

    def place(family: str) -> tuple[int, str]:
        return (_ORDER.index(family) if family in _ORDER else len(_ORDER), family)

    return [(family_title(name), sorted(groups[name])) for name in sorted(groups, key=place)]
