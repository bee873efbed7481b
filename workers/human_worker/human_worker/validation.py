"""What can be known to be wrong with a game before it starts."""

from typing import TYPE_CHECKING

from human_worker.keys import KeyScriptError, parse_script
from mosaic.workers import Problem

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

UNREADABLE_SCRIPT = "CFG114"


def problems(config: "TrainRunConfig") -> list[Problem]:
    """The daemon's hook: a script of keys has to be readable to its last line."""
    script = config.worker.extras.own.get("script")
    if not script:
        return []
    try:
        parse_script(str(script))
    except KeyScriptError as error:
        where = "/metadata/worker/config/extras/script"
        return [Problem(where, UNREADABLE_SCRIPT, str(error))]
    return []
