"""Which worker has an algorithm, and what the algorithm says about itself.

No worker is named here: every installed one is asked. `mosaic train cem` finds a third party's
algorithm as it finds the bundled ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mosaic.config.suggest import did_you_mean
from mosaic.errors import HookError, InvalidConfigError, Problem
from mosaic.workers import hooks
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import DiscoveredWorker, discover
from mosaic.workers.facts import AlgorithmFacts, ArgumentFacts

UNUSABLE_WORKER, UNKNOWN_ALGORITHM = "CFG105", "CFG106"
Workers = Mapping[str, DiscoveredWorker]


@dataclass(frozen=True)
class Algorithm:
    """What was typed, found.

    Attributes:
        worker: The worker that has it.
        name: Its name for that worker; empty for a worker that has only one thing to do.
        facts: What it says about itself; None when its worker does not say.
    """

    worker: WorkerCapabilities
    name: str
    facts: AlgorithmFacts | None

    @property
    def arguments(self) -> list[ArgumentFacts] | None:
        """The arguments it declares; None when any name may be one."""
        return None if self.facts is None else self.facts.get("arguments", [])

    @property
    def kinds(self) -> dict[str, str] | None:
        """The declared type of each argument; None when any name may be one."""
        declared = self.arguments
        return None if declared is None else {item["name"]: item["type"] for item in declared}


def find_algorithm(typed: str, chosen: str = "", workers: Workers | None = None) -> Algorithm:
    """The algorithm that was typed: `ppo`, `worker:ppo`, or a worker's type alone.

    Args:
        typed: What a person typed.
        chosen: The worker's type, where a person named one; then `typed` is its algorithm.
        workers: Those that are installed.

    Raises:
        InvalidConfigError: Nothing has this name, or several workers do.
    """
    installed = discover() if workers is None else workers
    if chosen:
        if chosen not in installed:
            hint = did_you_mean(chosen, installed)
            raise _refusal(UNUSABLE_WORKER, f"no worker {chosen!r} is installed{hint}")
        worker, name = _whole_worker(installed[chosen]), typed
    else:
        worker, name = _choose(typed, installed)
    return Algorithm(worker, name, _describe(worker, name))


def worker_of(algo: str, workers: Workers) -> str:
    """The type of the worker that has an algorithm.

    Raises:
        InvalidConfigError: None has, or several have.
    """
    if not algo:
        text = "'algo' is required: what to train (or name a 'worker')"
        raise InvalidConfigError([Problem("/algo", UNKNOWN_ALGORITHM, text)])
    return _choose(algo, workers)[0].worker_type


def worker_for(mode: str, chosen: str = "", workers: Workers | None = None) -> WorkerCapabilities:
    """The worker that can do something other than train, such as `script` or `play`.

    Args:
        mode: One of a worker's `modes`.
        chosen: The worker's type, where a person named one.
        workers: Those that are installed.

    Raises:
        InvalidConfigError: None can, several can, or the chosen one cannot.
    """
    installed = discover() if workers is None else workers
    able = {
        name: found.capabilities
        for name, found in installed.items()
        if found.capabilities and mode in found.capabilities.modes
    }
    if chosen in able:
        return able[chosen]
    if len(able) == 1 and not chosen:
        return next(iter(able.values()))
    if chosen:
        text = f"the worker {chosen!r} has no mode {mode!r}{did_you_mean(chosen, able)}"
    elif able:
        text = f"several workers have the mode {mode!r}; choose with --worker: {', '.join(able)}"
    else:
        text = f"no installed worker has the mode {mode!r} (`mosaic workers` lists them)"
    raise InvalidConfigError([Problem("/metadata/worker/type", UNUSABLE_WORKER, text)])


def _choose(typed: str, workers: Workers) -> tuple[WorkerCapabilities, str]:
    usable = {name: found.capabilities for name, found in workers.items() if found.capabilities}
    # A prefix that a worker resolves by itself comes first: `cleanrl:ppo` is an upstream script.
    for worker in usable.values():
        if typed.startswith(worker.algorithm_prefixes):
            return worker, typed
    if typed in workers:
        return _whole_worker(workers[typed]), ""
    prefix, colon, name = typed.partition(":")
    if colon and prefix in workers:
        return _whole_worker(workers[prefix]), name
    listed, broken = _listed(workers)
    owners = [name for name, names in listed.items() if typed in names]
    if len(owners) == 1:
        return usable[owners[0]], typed
    if owners:
        # Not `worker:algorithm` here: a worker may have a meaning of its own for its prefix.
        exact = " or ".join(f"--worker {owner}" for owner in sorted(owners))
        text = f"several workers have {typed!r}; choose with {exact} ('worker' in a document)"
        raise _refusal(UNKNOWN_ALGORITHM, text)
    known = [name for names in listed.values() for name in names]
    hint = did_you_mean(typed, [*known, *workers])
    text = f"there is no algorithm or worker {typed!r}{hint} (`mosaic workers` lists them)"
    # It may be one of theirs: a list that is missing must not look like a name that is wrong.
    unread = [f"; the algorithms of {error}" for error in broken]
    raise _refusal(UNKNOWN_ALGORITHM, text + "".join(unread))


def _whole_worker(found: DiscoveredWorker) -> WorkerCapabilities:
    if found.capabilities is None:
        raise _refusal(UNUSABLE_WORKER, f"{found.worker_type}: {found.problem}")
    return found.capabilities


def _listed(workers: Workers) -> tuple[dict[str, Sequence[str]], list[str]]:
    """The algorithms of each worker, and why some cannot be listed; these spoil no other list."""
    listed: dict[str, Sequence[str]] = {}
    broken: list[str] = []
    for name, worker in workers.items():
        if worker.algorithms is not None:
            listed[name] = worker.algorithms
            broken += [worker.unlisted] if worker.unlisted else []
        elif worker.capabilities is not None:
            try:
                listed[name] = hooks.algorithms(worker.capabilities)
            except HookError as error:
                broken.append(str(error))
    return listed, broken


def _describe(worker: WorkerCapabilities, name: str) -> AlgorithmFacts | None:
    if not worker.describe:
        return None
    try:
        return hooks.describe(worker, name)
    except ValueError as error:
        raise _refusal(UNKNOWN_ALGORITHM, str(error)) from None
    except HookError as error:
        raise _refusal(UNUSABLE_WORKER, str(error)) from None


def _refusal(code: str, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem("/metadata/worker/config/algo", code, text)])
