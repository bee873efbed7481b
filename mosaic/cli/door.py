"""Problems of a configuration in the words of the command line: flags instead of pointers."""

import re
from collections.abc import Iterable, Mapping

from mosaic.config.flags import flag_of
from mosaic.errors import InvalidConfigError, Problem

_FLAGS = {
    "/metadata/worker/type": "--worker",
    "/metadata/worker/config/algo": "ALGO",
    "/metadata/tags": "--tag",
    "/run_name": "--name",
    "/resources/cpus/requested": "--cpus",
    "/resources/gpus/requested": "--gpus",
    "/resources/gpus/mandatory": "--gpus",
    "/resources/memory_mb": "--memory-mb",
    "/site": "--site",
    "/limits/max_wallclock_minutes": "--max-minutes",
    "/metadata/worker/config/extras/curriculum_schedule": "--curriculum",
    "/metadata/worker/config/extras/checkpoint_path": "--resume",
    "/metadata/worker/config/extras/track_wandb": "--wandb",
}
_OWN = re.compile(r"/metadata/worker/config/(?:extras/(?:algo_params/)?)?(\w+)\Z")
_POINTED = re.compile(r"^( *)(/[\w/]+)(?=: )", re.MULTILINE)
_NAMED = re.compile(r"(?:\S+ has no flag )?(--[\w-]+)")


def in_flags(
    problems: Iterable[Problem], called: Mapping[str, str] | None = None
) -> InvalidConfigError:
    """The same problems, each with the flag by which the value was given, and each once.

    Args:
        problems: As the daemon or a reader of flags found them.
        called: What a command calls a flag of `mosaic train`, where that is something else.
    """
    said: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        where = _flag(problem)
        where = (called or {}).get(where, where)
        text = problem.message.removeprefix(f"{where} ")
        # The daemon finds what the flags have told already; the first telling is the nearer one.
        key = (where, problem.code) if where else (problem.pointer, problem.message)
        said.setdefault(key, Problem(where or problem.pointer, problem.code, text))
    return InvalidConfigError(list(said.values()))


def report_in_flags(report: str) -> str:
    """A worker's report with flags in place of the pointers that its lines begin with."""

    def flag(found: re.Match[str]) -> str:
        return found[1] + (_flag(Problem(found[2], "", "")) or found[2])

    return _POINTED.sub(flag, report)


def _flag(problem: Problem) -> str:
    """The flag behind a pointer, or the one that the message begins with."""
    for pointer, flag in _FLAGS.items():
        if problem.pointer == pointer or problem.pointer.startswith(f"{pointer}/"):
            return flag
    own = _OWN.match(problem.pointer)
    if own:
        return flag_of(own[1])
    named = _NAMED.match(problem.message) if not problem.pointer else None
    return named[1] if named else ""
