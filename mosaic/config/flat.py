"""What a run was asked to do, as flat names and values: what columns and filters look at."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mosaic.config.json_types import object_at
from mosaic.config.secrets import is_secret

if TYPE_CHECKING:
    from mosaic.workers.facts import AlgorithmFacts

# Columns of their own, or different for every run of a group.
_ELSEWHERE = frozenset({"run_id", "algo", "env_id", "seed", "notes", "mode"})
# What changes the result of an evaluation; a path or a video does not.
_HOW_PLAYED = frozenset({"eval_episodes", "eval_max_steps", "eval_policy_seed", "gamma"})


def flat_settings(document: Mapping[str, object]) -> dict[str, object]:
    """The settings of a nested config by their plain names; never a secret.

    Raises:
        KeyError: It is no config.
    """
    if not isinstance(object_at(document, "metadata", "worker").get("config"), dict):
        raise KeyError("metadata.worker.config")
    config = object_at(document, "metadata", "worker", "config")
    extras = object_at(config, "extras")
    found: dict[str, object] = {}
    for name in ("cpus", "gpus"):
        requested = object_at(document, "resources", name).get("requested")
        if requested:
            found[name] = requested
    limit = object_at(document, "limits").get("max_wallclock_minutes")
    if limit is not None:
        found["max_minutes"] = limit
    # From the outside in: a parameter of the algorithm counts more than a field of the same name.
    for part in (config, extras, object_at(extras, "algo_params")):
        for name, value in part.items():
            if name in ("extras", "algo_params") or name in _ELSEWHERE:
                continue
            if value is not None and not is_secret(name, value):
                found[name] = value if isinstance(value, (bool, int, float, str)) else _text(value)
    return found


def judged_settings(
    trained: Mapping[str, object], evaluation: Mapping[str, object], seed: int | None
) -> dict[str, object]:
    """What an evaluation says about: how the policy was trained, and how it was played.

    Evaluations of two seeds of one training then differ in nothing but that seed, wherever their
    policies are stored.

    Args:
        trained: The settings of the run that trained the policy.
        evaluation: Those of the evaluation.
        seed: The seed of the evaluation.
    """
    played = {name: value for name, value in evaluation.items() if name in _HOW_PLAYED}
    return {**trained, **played, "evaluation_seed": seed}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def fingerprint(settings: Mapping[str, object]) -> str:
    """The same for runs that were asked for the same thing."""
    return json.dumps(sorted(settings.items())) if settings else ""


def defaults_of(description: "AlgorithmFacts") -> dict[str, object]:
    """What a script takes when nothing is given, from its `describe()`."""
    return {
        argument["name"]: argument["default"]
        for argument in description.get("arguments", ())
        if argument["name"] not in _ELSEWHERE and argument["default"] is not None
    }
