"""A worker's hooks, asked with care: what they answer has the shape that the contract asks for.

The command line, the window and the daemon ask here. A hook that does not load, raises, hangs or
answers with nonsense raises `HookError`, which names the worker, the hook and the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from mosaic.errors import HookError, Problem, StrangerError
from mosaic.workers import strangers
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import is_ours
from mosaic.workers.facts import AlgorithmFacts, ArgumentFacts, EnvironmentFacts, RangeFacts

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

# The fields of a descriptor that name a function.
NAMES = ("validator", "algorithms", "describe", "environments", "dry_run")
# Names are asked for by every `mosaic train`, so a package that hangs must not cost more.
_NAMES_S = 10.0
# Long enough for a hook that imports torch on a busy machine.
_LIMIT_S = 60.0
# A dry run may start the training script and wait for its first words.
_DRY_RUN_S = 600.0
_NO_RANGE: RangeFacts = {
    "low": None,
    "high": None,
    "low_open": False,
    "high_open": False,
    "choices": [],
}

Result = TypeVar("Result")


def algorithms(worker: WorkerCapabilities) -> list[str]:
    """The names of a worker's algorithms; none for a worker that lists none.

    Raises:
        HookError: The hook failed.
    """

    def ask() -> list[str]:
        names = strangers.load(worker.algorithms)()
        return [_text(name, "a name") for name in _list(names)]

    return _asked(worker, "algorithms", ask, _NAMES_S) if worker.algorithms else []


def describe(worker: WorkerCapabilities, name: str) -> AlgorithmFacts:
    """What an algorithm says about itself.

    Raises:
        ValueError: The worker has no such algorithm.
        HookError: The hook failed.
    """

    def ask() -> AlgorithmFacts:
        given = _object(strangers.load(worker.describe)(name))
        arguments = [_argument(item) for item in _list(given.get("arguments", []))]
        return cast(AlgorithmFacts, {**given, "arguments": arguments})

    return _asked(worker, "describe", ask, passing=ValueError)


def environments(worker: WorkerCapabilities) -> list[EnvironmentFacts]:
    """The environments that a worker can run; none for a worker that lists none.

    Raises:
        HookError: The hook failed.
    """

    def ask() -> list[EnvironmentFacts]:
        listed = [_object(item) for item in _list(strangers.load(worker.environments)())]
        for item in listed:
            _text(item.get("id"), "'id'")
        return cast(list[EnvironmentFacts], listed)

    return _asked(worker, "environments", ask) if worker.environments else []


def dry_run(worker: WorkerCapabilities, document: Mapping[str, object]) -> tuple[bool, str]:
    """Whether a configuration fits, and what the worker says about it.

    Raises:
        HookError: The hook failed.
    """

    def ask() -> tuple[bool, str]:
        answer = strangers.load(worker.dry_run)(document)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise StrangerError(
                f"it answered with {strangers.kind(answer)} instead of (fits, text)"
            )
        return bool(answer[0]), str(answer[1])

    return _asked(worker, "dry_run", ask, _DRY_RUN_S)


def problems(worker: WorkerCapabilities, config: "TrainRunConfig") -> Sequence[Problem]:
    """What a worker's own check finds wrong with a configuration.

    Raises:
        HookError: The hook failed.
    """

    def ask() -> list[Problem]:
        found = _list(strangers.load(worker.validator)(config))
        for item in found:
            if not isinstance(item, Problem):
                raise StrangerError(f"it answered with {strangers.kind(item)} instead of a Problem")
        return cast(list[Problem], found)

    return _asked(worker, "validator", ask) if worker.validator else []


def failures(worker: WorkerCapabilities) -> list[HookError]:
    """The hooks that do not even load; nothing is called."""
    found: list[HookError] = []
    for name in NAMES:
        reference: str = getattr(worker, name)
        if not reference:
            continue
        try:
            _asked(worker, name, partial(strangers.load, reference))
        except HookError as error:
            found.append(error)
    return found


def _asked(
    worker: WorkerCapabilities,
    hook: str,
    ask: Callable[[], Result],
    limit_s: float | None = None,
    passing: type[Exception] | None = None,
) -> Result:
    """What a hook answers; one of another package gets only so much time."""
    reference: str = getattr(worker, hook)
    try:
        return ask() if is_ours(reference) else strangers.call(ask, limit_s or _LIMIT_S)
    except Exception as error:
        # A hook may raise anything. An answer of the contract is left to the caller.
        if passing is not None and isinstance(error, passing):
            raise
        reason = strangers.sentence(error)
        text = f"{worker.worker_type}: its hook `{hook}` ({reference}) failed: {reason}"
        raise HookError(text) from None


def _argument(given: object) -> ArgumentFacts:
    """One argument with all its facts; only the name must be given."""
    facts = _object(given)
    bounds = facts.get("range")
    limits = None if bounds is None else cast(RangeFacts, {**_NO_RANGE, **_object(bounds)})
    return cast(
        ArgumentFacts,
        {
            **facts,
            "name": _text(facts.get("name"), "an argument's 'name'"),
            "type": _text(facts.get("type", "str"), "an argument's 'type'"),
            "default": facts.get("default"),
            "help": str(facts.get("help") or ""),
            "range": limits,
        },
    )


def _list(given: object) -> list[object]:
    if not isinstance(given, list | tuple):
        raise StrangerError(f"it answered with {strangers.kind(given)} instead of a list")
    return list(given)


def _object(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise StrangerError(f"it answered with {strangers.kind(given)} instead of a dictionary")
    return dict(given)


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise StrangerError(f"{what} is {strangers.kind(given)} instead of a text")
    return given
