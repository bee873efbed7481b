"""Draws the figures of a sweep with Optuna's own code, from its trials.

python study_drawing.py history trials.csv history.svg
python study_drawing.py all trials.csv FOLDER
python study_drawing.py importance trials.csv importance.json

This file needs Optuna, scikit-learn (for fANOVA) and matplotlib. Only trials that completed count:
one that was pruned has the value of where it stopped, which says little about its settings.
"""

import csv
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # before pyplot: no window system is needed, or there

import matplotlib.pyplot as plt
import optuna
from matplotlib.figure import Figure
from optuna.distributions import CategoricalDistribution, json_to_distribution
from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.visualization import matplotlib as charts

warnings.simplefilter("ignore", ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.ERROR)
PARAM, DISTRIBUTION = "param ", "distribution "
_NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
# More parameters than two make a grid of contours too small to read.
_MOST_CONTOURS = 2
# Trees of so few trials would be drawn from chance alone.
FEWEST_TRIALS = 4


def read(path: Path) -> optuna.Study:
    """The completed trials of a data file as a study in memory."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    smaller = bool(rows) and rows[0]["direction"] == "minimize"
    study = optuna.create_study(direction="minimize" if smaller else "maximize")
    for row in rows:
        if row["state"] != "complete":
            continue
        names = [key.removeprefix(PARAM) for key in row if key.startswith(PARAM)]
        kinds = {name: json_to_distribution(row[DISTRIBUTION + name]) for name in names}
        params = {name: json.loads(row[PARAM + name]) for name in names}
        study.add_trial(
            optuna.create_trial(params=params, distributions=kinds, value=float(row["value"]))
        )
    return study


def varied(study: optuna.Study) -> list[str]:
    """The parameters that took more than one value, the most important first."""
    trials = study.get_trials(deepcopy=False)
    names = dict.fromkeys(name for trial in trials for name in trial.params)
    several = [name for name in names if len({repr(one.params[name]) for one in trials}) > 1]
    known = importance(study)
    return sorted(several, key=lambda name: -known.get(name, 0.0))


@cache
def importance(study: optuna.Study) -> dict[str, float]:
    """How much of the value's variation each parameter explains (fANOVA); empty if unknown."""
    trials = study.get_trials(deepcopy=False)
    if len(trials) < FEWEST_TRIALS or len({trial.value for trial in trials}) < 2:
        return {}
    # Seeded: the trees behind it are random, and a report must not change.
    return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))


def history(study: optuna.Study) -> None:
    """The value of every trial, and the best so far."""
    charts.plot_optimization_history(study)


def importances(study: optuna.Study) -> None:
    """How much of the value's variation each parameter explains."""
    charts.plot_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    plt.gca().set_title("Importance of parameters (fANOVA)", loc="left")


def parallel(study: optuna.Study) -> None:
    """Every trial as a line through its settings."""
    charts.plot_parallel_coordinate(study, params=varied(study))


def slices(study: optuna.Study) -> None:
    """The value over each parameter by itself."""
    charts.plot_slice(study, params=varied(study))


def contour(study: optuna.Study) -> None:
    """The value over the two most important parameters."""
    charts.plot_contour(study, params=varied(study)[:_MOST_CONTOURS])


KINDS: dict[str, Callable[[optuna.Study], None]] = {
    "history": history,
    "importances": importances,
    "parallel": parallel,
    "slices": slices,
    "contour": contour,
}


def possible(study: optuna.Study) -> list[str]:
    """The figures that these trials are enough for."""
    trials = study.get_trials(deepcopy=False)
    if not trials:
        return []
    names = varied(study)
    kinds = ["history"]
    if importance(study):
        kinds.append("importances")
    if names and len(trials) > 1:
        kinds += ["slices"]
    if len(names) > 1 and len(trials) > 1:
        kinds += ["parallel"]
        numbers = [name for name in names if not _categorical(study, name)]
        if len(trials) >= FEWEST_TRIALS and len(numbers) > 1:
            kinds.append("contour")
    return kinds


def draw(kind: str, study: optuna.Study) -> Figure:
    """One figure; close it with `plt.close` when it is saved."""
    # Optuna changes matplotlib's style for good: a figure drawn after others would be another one
    # than the same figure drawn alone.
    matplotlib.rcdefaults()
    KINDS[kind](study)
    figure = plt.gcf()
    wide = max(7.0, 3.0 * len(varied(study))) if kind in ("slices", "parallel") else 7.0
    figure.set_size_inches(min(wide, 14.0), 7.0 if kind == "contour" else 4.2)
    return figure


def save(figure: Figure, target: Path, form: str) -> None:
    """Write a figure as `svg`, `pdf` or `png`."""
    # The same picture gives the same file, byte for byte: no date, and no random names inside.
    with matplotlib.rc_context({"svg.hashsalt": "mosaic", "svg.fonttype": "path"}):
        # Optuna arranges its axes by itself; only what it leaves outside is brought in.
        figure.savefig(target, format=form, metadata=_NO_DATE[form], dpi=150, bbox_inches="tight")
    plt.close(figure)


def _categorical(study: optuna.Study, name: str) -> bool:
    first = study.get_trials(deepcopy=False)[0]
    return isinstance(first.distributions[name], CategoricalDistribution)


def main(words: Sequence[str]) -> None:
    """Draw what was asked for."""
    kind, data, target = words[0], Path(words[1]), Path(words[2])
    study = read(data)
    if kind == "importance":
        target.write_text(json.dumps(importance(study)))
        return
    if kind != "all":
        save(draw(kind, study), target, target.suffix[1:])
        return
    for kind in possible(study):
        for form in ("svg", "pdf", "png"):
            save(draw(kind, study), target / f"{kind}.{form}", form)


if __name__ == "__main__":
    main(sys.argv[1:])
