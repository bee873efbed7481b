"""Which runs belong together: those that were asked for the same thing with another seed."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """What a run was asked to do.

    Attributes:
        settings: Everything but algorithm, environment and seed.
    """

    algo: str
    env_id: str
    settings: Mapping[str, object]


def group_names(asked: Mapping[str, Asked], *, environments: bool = False) -> dict[str, str]:
    """The name of each run's group: its algorithm and the settings that set groups apart.

    Args:
        asked: What each run was asked to do, by its id.
        environments: Whether runs in different environments are different groups.
    """
    keys = {key for one in asked.values() for key in one.settings}
    apart = sorted(
        key for key in keys if len({repr(one.settings.get(key)) for one in asked.values()}) > 1
    )
    several = environments and len({one.env_id for one in asked.values()}) > 1
    return {run_id: _name(one, apart, several) for run_id, one in asked.items()}


def _name(asked: Asked, apart: list[str], with_environment: bool) -> str:
    settings = [f"{key}={asked.settings[key]}" for key in apart if key in asked.settings]
    place = [asked.env_id] if with_environment else []
    return " ".join(filter(None, [asked.algo, *place, *settings]))
