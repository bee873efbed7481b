"""What this worker offers, as plain data for flags, forms and checks."""

ENVIRONMENT = "TenArms-v0"


def algorithms() -> list[str]:
    """The names that `mosaic train NAME` finds."""
    return ["bandit"]


def describe(name: str) -> dict[str, object]:
    """An algorithm's arguments; types, ranges and choices are enforced by MOSAIC.

    Raises:
        ValueError: There is no such algorithm.
    """
    if name not in ("", *algorithms()):
        raise ValueError(f"there is no algorithm {name!r}; there is {', '.join(algorithms())}")
    return {
        "title": "Epsilon-greedy bandit",
        "default_env": ENVIRONMENT,
        "actions": ["discrete"],
        "observations": ["discrete"],
        "arguments": [
            {
                "name": "total_timesteps",
                "type": "int",
                "default": 2000,
                "help": "pulls in all",
                "range": {"low": 1},
            },
            {
                "name": "epsilon",
                "type": "float",
                "default": 0.1,
                "help": "share of random pulls",
                "range": {"low": 0.0, "high": 1.0},
            },
            {
                "name": "step_ms",
                "type": "float",
                "default": 0.0,
                "help": "pause after each pull, to watch it",
                "range": {"low": 0.0},
            },
        ],
        "smoke": {"total_timesteps": 200},
    }


def environments() -> list[dict[str, str]]:
    """What it can act on."""
    return [
        {
            "id": ENVIRONMENT,
            "family": "other",
            "actions": "discrete",
            "observations": "discrete",
        }
    ]
