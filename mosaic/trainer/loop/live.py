"""The runs that have not ended, as the daemon holds them in memory."""

from mosaic.config.paths import Home
from mosaic.errors import RunNotFoundError
from mosaic.runs.directory import RunDirectory
from mosaic.trainer.core.states import Run
from mosaic.trainer.loop.watch import Watch
from mosaic.trainer.storage.registry import Registry, StoredRun, Vitals


class LiveRuns:
    """Rows and watches of live runs; every other run is read from the registry.

    The rows here are newer than the registry's, whose writer thread lags behind, and their vital
    signs are stored only now and then. So a run is always looked up here first.
    """

    def __init__(self, home: Home, registry: Registry) -> None:
        self._root, self._trash = home.runs, home.trash
        self._registry = registry
        self._runs: dict[str, Run] = {}
        self._watches: dict[str, Watch] = {}

    # ------------------------------------------------------------ reading

    def runs(self) -> list[Run]:
        """Every live run; a copy, because handling one may end it."""
        return list(self._runs.values())

    def get(self, run_id: str) -> Run | None:
        """A live run's row."""
        return self._runs.get(run_id)

    def watch(self, run_id: str) -> Watch | None:
        """What the daemon knows about a live run beyond its row."""
        return self._watches.get(run_id)

    def watches(self) -> list[tuple[Run, Watch]]:
        """Every live run with its watch."""
        return [(self._runs[run_id], watch) for run_id, watch in self._watches.items()]

    def stored(self, run_id: str) -> StoredRun:
        """Any run, live or ended, with its newest vital signs.

        Raises:
            RunNotFoundError: There is none.
        """
        run = self._runs.get(run_id)
        if run is not None:
            return StoredRun(run, self._watches[run_id].vitals, 0)
        stored = self._registry.get(run_id)
        if stored is None:
            raise RunNotFoundError(f"no run {run_id}; `mosaic runs` lists them")
        return stored

    def fresh(self, stored: StoredRun) -> StoredRun:
        """A row from the registry with the vital signs of this moment."""
        run_id = stored.run.run_id
        return self.stored(run_id) if run_id in self._runs else stored

    def wait_reason(self, run_id: str) -> str:
        """Why a run waits; empty when it does not."""
        watch = self._watches.get(run_id)
        return watch.wait_reason if watch else ""

    def run_dir(self, stored: StoredRun) -> RunDirectory:
        """A run's directory: among the runs or in the trash."""
        root = self._trash if stored.run.deleted else self._root
        return RunDirectory(root / stored.run.run_id, stored.run.attempt)

    # ------------------------------------------------------------ changing

    def add(self, run: Run, vitals: Vitals) -> Watch:
        """Begin to watch a run, where the last daemon stopped reading."""
        watch = Watch.of(RunDirectory(self._root / run.run_id, run.attempt), vitals)
        self._runs[run.run_id] = run
        self._watches[run.run_id] = watch
        return watch

    def update(self, run: Run) -> None:
        """Replace a live run's row; an ended run's is the registry's business."""
        if run.run_id in self._runs:
            self._runs[run.run_id] = run

    def remove(self, run_id: str) -> None:
        """The run has ended."""
        del self._runs[run_id]
        del self._watches[run_id]
