"""Environments by family, narrowed to what an algorithm can act on."""

from collections.abc import Iterable

from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.facts import AlgorithmFacts, EnvironmentFacts
from mosaic.workers.fitting import misfit

_TITLES = {
    "classic_control": "Classic control",
    "box2d": "Box2D",
    "toy_text": "Toy text",
    "mujoco": "MuJoCo",
    "dm_control": "DeepMind Control",
    "minigrid": "MiniGrid",
    "babyai": "BabyAI",
    "mosaic": "Games of our own",
    "atari": "Atari",
    "procgen": "Procgen",
    "envpool": "EnvPool",
    "phys2d": "Gymnasium phys2d (JAX)",
    "tabular": "Gymnasium tabular (JAX)",
    "xminigrid": "XLand-MiniGrid (JAX)",
    "pgx": "pgx (JAX)",
    "jumanji": "Jumanji (JAX)",
    "brax": "brax (JAX)",
}
# From what trains in a minute to what needs a day.
_ORDER = tuple(_TITLES)


def family_title(family: str) -> str:
    """A family as people call it."""
    return _TITLES.get(family, family.replace("_", " ").capitalize() or "Other")


def fitting(
    worker: WorkerCapabilities,
    environments: Iterable[EnvironmentFacts],
    description: AlgorithmFacts,
) -> list[EnvironmentFacts]:
    """The environments that a worker and the chosen algorithm can handle.

    The rule is the daemon's own. Observations of an unknown kind may be typed, but are not
    offered: only making the environment tells whether they fit.
    """
    return [
        item
        for item in environments
        if item["observations"] != "other" and not misfit(worker, item, description)
    ]


def by_family(environments: Iterable[EnvironmentFacts]) -> list[tuple[str, list[str]]]:
    """Ids under the title of their family, families in a sensible order."""
    groups: dict[str, list[str]] = {}
    for item in environments:
        groups.setdefault(item["family"], []).append(item["id"])

    def place(family: str) -> tuple[int, str]:
        return (_ORDER.index(family) if family in _ORDER else len(_ORDER), family)

    return [(family_title(name), sorted(groups[name])) for name in sorted(groups, key=place)]
