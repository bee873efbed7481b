"""The figures of a sweep, drawn by Optuna in a process of their own.

Optuna draws through matplotlib's global state and changes its style. In a process of their own they
disturb neither the window nor the other figures of a report.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mosaic.errors import MosaicError
from mosaic.reports.content import Figure
from mosaic.reports.figures import as_csv
from mosaic.system.stoppable import Stoppable

PROGRAM = "study_drawing.py"
Rows = Sequence[Mapping[str, object]]
_FILE = Path(__file__).with_name(PROGRAM)
# Seldom more than ten seconds; a machine with much to do may need many times that.
_LIMIT_S = 300.0
_FIGURES = {
    "history": ("Values of the trials", "Each dot is a trial; the line is the best so far."),
    "importances": (
        "Importance of the parameters",
        "How much of the value's variation each parameter explains (fANOVA), completed trials "
        "only. With few trials this is a hint, not a result.",
    ),
    "slices": ("One parameter at a time", "The value of each trial over each of its settings."),
    "parallel": ("All parameters together", "Each line is a trial; darker is better."),
    "contour": (
        "The two most important parameters",
        "The value between the trials is interpolated; dots are trials.",
    ),
}


def draw_study(name: str, trials: Rows, program: Stoppable | None = None) -> tuple[Figure, ...]:
    """Every figure that a study has enough completed trials for.

    Args:
        name: Of the study, for the files.
        trials: `Search.rows()`.
        program: Runs the process, for those who may want to stop it.

    Raises:
        MosaicError: Optuna or scikit-learn is missing, or could not draw.
        StoppedError: It was stopped.
    """
    if not _any_complete(trials):
        return ()
    with tempfile.TemporaryDirectory(prefix="mosaic-figures-") as folder:
        place = Path(folder)
        data = _draw(trials, "all", place, place, program or Stoppable())
        figures = [_figure(name, kind, data, place) for kind in _FIGURES]
    return tuple(one for one in figures if one is not None)


def importance_of(trials: Rows) -> dict[str, float]:
    """How much of the value's variation each parameter explains (fANOVA), largest first.

    Args:
        trials: `Search.rows()`.

    Returns:
        Nothing with too few completed trials.

    Raises:
        MosaicError: Optuna or scikit-learn is missing.
    """
    if not _any_complete(trials):
        return {}
    with tempfile.TemporaryDirectory(prefix="mosaic-importance-") as folder:
        target = Path(folder) / "importance.json"
        _draw(trials, "importance", Path(folder), target, Stoppable())
        found: dict[str, float] = json.loads(target.read_text())
    return found


def _any_complete(trials: Rows) -> bool:
    return any(trial["state"] == "complete" for trial in trials)


def _draw(trials: Rows, what: str, place: Path, target: Path, program: Stoppable) -> str:
    """Let the program do something with the trials; the data that it read."""
    data = as_csv(trials)
    file = place / "trials.csv"
    file.write_text(data, encoding="utf-8")
    # `-P`: modules beside the program are not for it.
    done = program.run([sys.executable, "-P", str(_FILE), what, str(file), str(target)], _LIMIT_S)
    if done.returncode:
        raise MosaicError(
            f"the sweep could not be drawn: {(done.stderr.splitlines() or ['no reason'])[-1]}; "
            "if a package is missing, run: pip install -r requirements/extras/optuna.txt"
        )
    return data


def _figure(name: str, kind: str, data: str, place: Path) -> Figure | None:
    if not (place / f"{kind}.svg").exists():
        return None
    title, caption = _FIGURES[kind]
    return Figure(
        name=f"{name}-{kind}",
        kind=kind,
        title=title,
        caption=caption,
        data=data,
        program=PROGRAM,
        svg=(place / f"{kind}.svg").read_bytes(),
        pdf=(place / f"{kind}.pdf").read_bytes(),
        png=(place / f"{kind}.png").read_bytes(),
    )
