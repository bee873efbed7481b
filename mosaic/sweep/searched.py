"""What a sweep has found so far, read from its study without disturbing who drives it."""

import tempfile
from pathlib import Path

import optuna

from mosaic.client import TrainerClient
from mosaic.errors import RunFileError, RunNotFoundError
from mosaic.statistics.intervals import Interval
from mosaic.sweep.results import Confirmed, Search
from mosaic.sweep.study import FILE_NAME, StudyFacts, facts_of

TAG = "sweep="


def sweep_id_of(trainer: TrainerClient, word: str) -> str:
    """The id of the sweep that a word names: its own id, any of its runs, or `last`.

    Raises:
        RunNotFoundError: The run belongs to no sweep.
    """
    run = trainer.get(word)
    marks = [tag.removeprefix(TAG) for tag in run.tags if tag.startswith(TAG)]
    if not marks:
        raise RunNotFoundError(
            f"run {run.run_id} belongs to no sweep; `mosaic sweep list` lists the sweeps"
        )
    return marks[0]


def read_search(trainer: TrainerClient, word: str) -> Search:
    """What a sweep has found, wherever its daemon runs.

    Raises:
        RunNotFoundError: There is no such sweep, or its study cannot be read.
    """
    sweep_id = sweep_id_of(trainer, word)
    with tempfile.TemporaryDirectory(prefix="mosaic-study-") as folder:
        copy = Path(folder) / FILE_NAME
        try:
            trainer.download(sweep_id, FILE_NAME, copy)
        except RunFileError as error:
            raise RunNotFoundError(f"the study of {sweep_id} is not there: {error}") from None
        return read_file(copy, sweep_id)


def read_file(path: Path, sweep_id: str) -> Search:
    """What the study in a file has found.

    Raises:
        RunNotFoundError: It cannot be read.
    """
    try:
        study = optuna.load_study(study_name=sweep_id, storage=f"sqlite:///{path}")
        found = search_of(facts_of(study), sweep_id)
    except (KeyError, TypeError, ValueError, optuna.exceptions.OptunaError) as error:
        raise RunNotFoundError(f"the study of {sweep_id} cannot be read: {error}") from None
    # Optuna has no public way to close its file.
    study._storage.remove_session()
    return found


def search_of(facts: StudyFacts, sweep_id: str) -> Search:
    """What these facts of a study amount to."""
    return Search(
        sweep_id=sweep_id,
        plan=facts.plan,
        trials=tuple(facts.trials),
        halted=facts.halted,
        confirmed=tuple(read_confirmed(facts.confirmed)),
        distributions=facts.distributions,
    )


def read_confirmed(document: object) -> list[Confirmed]:
    """The confirmation as a study keeps it."""
    rows = document if isinstance(document, list) else []
    return [
        Confirmed(
            trial=row["trial"],
            searched=row["searched"],
            scores=tuple(row["scores"]),
            mean=row["mean"],
            interval=Interval(*row["interval"]) if row["interval"] else None,
        )
        for row in rows
    ]
