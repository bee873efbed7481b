"""Runs as files: exported and imported without waiting for either."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from gym_gui.models.leaving import proposed_file
from gym_gui.models.notices import Notice
from gym_gui.services import Services
from mosaic.client.archives import SUFFIX
from mosaic.errors import InvalidArgumentError, RunExistsError
from mosaic.presenting.run_status import can_delete, title_of
from mosaic.records import ImportedRun, RunRecord

ENDING = SUFFIX


def is_archive(path: Path) -> bool:
    """Whether a file is called like an archive of runs."""
    return path.name.endswith(ENDING)


def proposed_name(runs: Iterable[RunRecord]) -> str:
    """What the file of these runs could be called."""
    chosen = list(runs)
    if len(chosen) == 1:
        return proposed_file(chosen[0], ENDING)
    return f"{len(chosen)}-runs{ENDING}"


class RunArchives:
    """Exports and imports through the daemon."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def export(self, runs: Iterable[RunRecord], path: Path) -> None:
        """Write ended runs into a file."""
        ids = [run.run_id for run in runs if can_delete(run)]
        target = path if is_archive(path) else path.with_name(path.name + ENDING)
        notices = self._services.notices
        try:
            link = self._services.daemons.shared(ids)
        except InvalidArgumentError as error:
            notices.error("Not exported", error)
            return
        link.ask(
            # The file dialog has asked before it overwrites.
            lambda client: client.export_runs(ids, target, overwrite=True),
            lambda made: notices.info(
                f"{len(ids)} {'run' if len(ids) == 1 else 'runs'} written to {target.name}",
                f"sha256 {made.sha256}",
            ),
            lambda error: notices.error("Not exported", error),
        )

    def take_in(self, path: Path, as_new: bool = False) -> None:
        """Import the runs of a file; when others have their ids, offer to import them as new."""
        link = self._services.link
        link.ask(
            lambda client: client.import_runs(path, as_new=as_new),
            lambda found: self._imported(path, found, link.name),
            lambda error: self._refused(path, error),
        )

    def _imported(self, path: Path, found: Sequence[ImportedRun], daemon: str) -> None:
        new = [item.run for item in found if item.created]
        for item in found:
            # Before the watch stream brings them, so that the selection below finds its rows.
            self._services.store.put(item.run, daemon)
        if not new:
            self._services.notices.info(f"All runs in {path.name} are already here")
            return
        self._services.selection.select(tuple(run.run_id for run in new))
        what = title_of(new[0]) if len(new) == 1 else f"{len(new)} runs"
        self._services.notices.say(Notice("success", f"Imported {what} from {path.name}"))

    def _refused(self, path: Path, error: Exception) -> None:
        if isinstance(error, RunExistsError):
            self._services.notices.say(
                Notice(
                    "warning",
                    f"{path.name}: {str(error).splitlines()[0]}",
                    "Other runs have the same ids here. They stay as they are.",
                    "Import as new runs",
                    lambda: self.take_in(path, as_new=True),
                )
            )
        else:
            self._services.notices.error(f"{path.name} was not imported", error)
