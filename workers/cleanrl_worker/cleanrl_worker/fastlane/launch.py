"""The environment variables a launcher gives to a training process."""

import os
from collections.abc import Mapping
from pathlib import Path

from cleanrl_worker.fastlane.site.fastlane_import_hook import install
from mosaic.fastlane import settings
from mosaic.fastlane.cameras import has_display

SITE_FOLDER = Path(__file__).parent / "site"

_EXTRAS = {
    "fastlane_video_mode": settings.MODE,
    "fastlane_slot": settings.SLOT,
    "fastlane_grid_limit": settings.GRID_LIMIT,
}


def launch_environment(
    extras: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables that make a child interpreter show its environments.

    Args:
        extras: A run's `extras`; `fastlane_video_mode`, `fastlane_slot` and
            `fastlane_grid_limit` count, the rest is ignored.
        environment: What the child would get otherwise; by default this process's.

    Returns:
        Only what has to be added or changed. `PYTHONPATH` is extended, never replaced.
    """
    given = os.environ if environment is None else environment
    added = {name: str(extras[key]) for key, name in _EXTRAS.items() if extras.get(key) is not None}
    if added.get(settings.MODE, given.get(settings.MODE)) == "off":
        return added
    paths = [path for path in given.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(SITE_FOLDER) not in paths:
        added["PYTHONPATH"] = os.pathsep.join([str(SITE_FOLDER), *paths])
    added["SDL_NO_SIGNAL_HANDLERS"] = "1"
    # MuJoCo chooses how to draw when it is imported, long before anyone watches.
    if not has_display(given) and "MUJOCO_GL" not in given:
        added["MUJOCO_GL"] = "egl"
    return added


def activate(extras: Mapping[str, object]) -> None:
    """Show the environments of this very process, and of the interpreters it starts.

    For a training process that was forked rather than started with `launch_environment`.
    """
    os.environ.update(launch_environment(extras))
    install()
