"""The settings of runs, read from their configs in the background when needed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from qtpy.QtCore import QObject, QTimer, Signal

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.worker_hooks import WorkerHooks
from gym_gui.models.actors import Actor
from mosaic.client import TrainerClient
from mosaic.config.flat import defaults_of, fingerprint, flat_settings
from mosaic.errors import RunFileError, RunNotFoundError
from mosaic.presenting.run_status import is_real
from mosaic.records import RunRecord
from mosaic.workers.facts import AlgorithmFacts

Settings = Mapping[str, object]
# Short enough to show the first rows soon, long enough that the thread is not asked too often.
_AT_ONCE = 250
# Several parts that arrive together rearrange the table once.
_COALESCE_MS = 120
_NOTHING: Settings = {}


class RunSettings(QObject):
    """What each run was asked to do; empty until it has been read.

    Signals:
        arrived: Settings of more runs, or defaults of more scripts, are known.
    """

    arrived = Signal()

    def __init__(self, link_of: Callable[[str], DaemonLink], hooks: WorkerHooks) -> None:
        super().__init__()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_COALESCE_MS)
        self._timer.timeout.connect(self.arrived)
        self._link_of = link_of
        self._waiting: list[str] = []
        self._reading = False
        self._hooks = hooks
        self._known: dict[str, Settings] = {}
        self._prints: dict[str, str] = {}
        self._asked: set[str] = set()
        self._defaults: dict[tuple[str, str], Settings] = {}
        self._scripts: set[tuple[str, str]] = set()
        self._described: set[tuple[str, str]] = set()
        self._actors: dict[str, Actor] = {}

    def set_actors(self, actors: Iterable[Actor]) -> None:
        """Who can be asked for a script's defaults."""
        self._actors = {actor.worker_type: actor for actor in actors}
        self._want_defaults(set(self._scripts))

    def value(self, run: RunRecord, name: str) -> object:
        """A setting of a run, its script's default when it was not given, or None."""
        given = self._known.get(run.run_id)
        if given is None:
            return None
        if name in given:
            return given[name]
        return self._defaults.get((run.worker, run.algo), _NOTHING).get(name)

    def given(self, run: RunRecord) -> Settings | None:
        """What a run was asked for, by name; None while it is not read."""
        return self._known.get(run.run_id)

    def fingerprint(self, run: RunRecord) -> str:
        """The same for runs that were asked for the same thing; empty while not read."""
        return self._prints.get(run.run_id, "")

    def names(self) -> list[str]:
        """Every setting that a run read so far has."""
        found: set[str] = set()
        for given in self._known.values():
            found.update(given)
        for defaults in self._defaults.values():
            found.update(defaults)
        return sorted(found)

    def want(self, runs: Sequence[RunRecord]) -> None:
        """Read the settings of these runs, a few hundred at a time; what is known is not read."""
        new = [run for run in runs if run.run_id not in self._asked and is_real(run)]
        self._asked.update(run.run_id for run in new)
        self._want_defaults({(run.worker, run.algo) for run in new})
        self._waiting += [run.run_id for run in new]
        self._read_more()

    def close(self) -> None:
        """Announce nothing more."""
        self._timer.stop()
        self.blockSignals(True)

    def _want_defaults(self, scripts: set[tuple[str, str]]) -> None:
        """Ask for the defaults of these (worker, algorithm) pairs."""
        for worker, algo in scripts - self._described:
            actor = self._actors.get(worker)
            self._scripts.add((worker, algo))
            if actor is None or actor.capabilities is None or not actor.trains_algorithms:
                continue
            self._described.add((worker, algo))
            self._hooks.describe(
                actor.capabilities,
                algo,
                partial(self._take_defaults, (worker, algo)),
                lambda _error: None,  # an algorithm of another version has no defaults to show
            )

    def _read_more(self) -> None:
        # One part at a time: thousands of questions in a row must not keep a click waiting.
        if self._reading or not self._waiting:
            return
        link = self._link_of(self._waiting[0])
        part = [one for one in self._waiting if self._link_of(one) is link][:_AT_ONCE]
        chosen = set(part)
        self._waiting = [one for one in self._waiting if one not in chosen]
        self._reading = True
        link.ask(partial(_read_all, part), self._take, lambda _error: self._forget(link, chosen))

    def _forget(self, away: DaemonLink, part: set[str]) -> None:
        """A daemon is away; its runs are asked for again when they are needed."""
        self._reading = False
        gone = part.union(one for one in self._waiting if self._link_of(one) is away)
        self._asked -= gone
        self._waiting = [one for one in self._waiting if one not in gone]
        self._read_more()

    def _take(self, found: dict[str, tuple[Settings, str]]) -> None:
        self._reading = False
        for run_id, (settings, mark) in found.items():
            self._known[run_id] = settings
            self._prints[run_id] = mark
        self._timer.start()
        self._read_more()

    def _take_defaults(self, key: tuple[str, str], description: AlgorithmFacts) -> None:
        self._defaults[key] = defaults_of(description)
        self._timer.start()


def _read_all(run_ids: list[str], client: TrainerClient) -> dict[str, tuple[Settings, str]]:
    """Runs on a thread; a config that cannot be read has no settings."""
    found: dict[str, tuple[Settings, str]] = {}
    for run_id in run_ids:
        try:
            settings = flat_settings(client.config(run_id))
        except (KeyError, TypeError, AttributeError, ValueError, RunFileError, RunNotFoundError):
            settings = {}
        found[run_id] = (settings, fingerprint(settings))
    return found
