"""An Optuna study read straight from its file, read-only, without disturbing who writes it."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from gym_gui.models.stored import fields, items, whole

# A table widget with more rows becomes slow; the best ones are kept.
MOST_TRIALS = 5000
_LOG_STATES = {0: "running", 1: "complete", 2: "pruned", 3: "fail", 4: "waiting"}


@dataclass
class Trial:
    """One trial."""

    number: int
    state: str
    value: float | None = None
    params: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A study's trials.

    Attributes:
        name: The study's name.
        maximise: Whether a higher value is better.
        trials: At most `MOST_TRIALS`, the best ones first when there are more.
        total: How many there are in all.
        distributions: What each parameter was chosen from, as Optuna writes it.
    """

    name: str
    maximise: bool
    trials: tuple[Trial, ...]
    total: int
    distributions: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        """Every parameter of any trial."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.params))

    def rows(self) -> list[dict[str, object]]:
        """The trials as Optuna's own code can draw them; see `mosaic.reports.study_figures`."""
        names = [name for name in self.parameters if name in self.distributions]
        direction = "maximize" if self.maximise else "minimize"
        return [
            {
                "number": trial.number,
                "state": trial.state,
                "value": "" if trial.value is None else trial.value,
                "direction": direction,
                **{f"param {name}": json.dumps(trial.params.get(name)) for name in names},
                **{f"distribution {name}": self.distributions[name] for name in names},
            }
            for trial in self.trials
            # A trial that lacks a parameter cannot be compared with the others over it.
            if all(name in trial.params for name in names)
        ]


def read_study(path: Path) -> Study:
    """Read a study from SQLite or from a journal file.

    Raises:
        ValueError: The file is neither, or is being made.
    """
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3"):
        return _from_sqlite(path)
    return _from_journal(path)


def _from_sqlite(path: Path) -> Study:
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=2.0)
    except sqlite3.Error as error:
        raise ValueError(f"{path.name} cannot be opened: {error}") from None
    try:
        return _query(connection)
    except sqlite3.Error as error:
        raise ValueError(f"{path.name} is no Optuna study: {error}") from None
    finally:
        connection.close()


def _query(connection: sqlite3.Connection) -> Study:
    first = connection.execute("SELECT study_id, study_name FROM studies ORDER BY 1").fetchone()
    if first is None:
        raise ValueError("the file holds no study yet")
    study_id, name = first
    direction = connection.execute(
        "SELECT direction FROM study_directions WHERE study_id = ?", (study_id,)
    ).fetchone()
    maximise = bool(direction and direction[0] == "MAXIMIZE")
    total = connection.execute(
        "SELECT count(*) FROM trials WHERE study_id = ?", (study_id,)
    ).fetchone()[0]
    order = "DESC" if maximise else "ASC"
    rows = connection.execute(
        "SELECT t.trial_id, t.number, t.state, v.value FROM trials t "
        "LEFT JOIN trial_values v ON v.trial_id = t.trial_id AND v.objective = 0 "
        f"WHERE t.study_id = ? ORDER BY v.value IS NULL, v.value {order}, t.number LIMIT ?",
        (study_id, MOST_TRIALS),
    ).fetchall()
    trials = {row[0]: Trial(row[1], str(row[2]).lower(), row[3]) for row in rows}
    chosen_from: dict[str, str] = {}
    for trial_id, key, value, distribution in connection.execute(
        "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params"
    ):
        if trial_id in trials:
            trials[trial_id].params[key] = _external(value, distribution)
            chosen_from[key] = distribution
    return Study(name, maximise, tuple(trials.values()), int(total), chosen_from)


def _from_journal(path: Path) -> Study:
    name, maximise = path.stem, False
    trials: list[Trial] = []
    chosen_from: dict[str, str] = {}
    for entry in _journal_lines(path):
        # Optuna's numbers: 0 makes a study, 4 a trial, 5 sets a parameter, 6 a state with its
        # values.
        code = entry.get("op_code")
        if code == 0:
            name = str(entry.get("study_name", name))
            maximise = 2 in items(entry.get("directions") or [])
        elif code == 4:
            trials.append(Trial(len(trials), "running"))
        elif code == 5 and (trial := _known(trials, entry)) is not None:
            value = _external(entry.get("param_value_internal"), entry.get("distribution"))
            trial.params[str(entry.get("param_name"))] = value
            chosen_from[str(entry.get("param_name"))] = str(entry.get("distribution"))
        elif code == 6 and (trial := _known(trials, entry)) is not None:
            trial.state = _LOG_STATES.get(whole(entry.get("state", 0)), "running")
            values = items(entry.get("values") or [])
            trial.value = float(str(values[0])) if values else None
    if not trials:
        raise ValueError(f"{path.name} holds no trials yet")
    sign = -1 if maximise else 1
    trials.sort(key=lambda t: (t.value is None, sign * (t.value or 0.0), t.number))
    return Study(name, maximise, tuple(trials[:MOST_TRIALS]), len(trials), chosen_from)


def _known(trials: list[Trial], entry: Mapping[str, object]) -> Trial | None:
    place = entry.get("trial_id")
    return trials[place] if isinstance(place, int) and 0 <= place < len(trials) else None


def _journal_lines(path: Path) -> Iterator[Mapping[str, object]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line may still be being written
            if isinstance(entry, dict):
                yield entry


def _external(value: object, distribution: object) -> object:
    """A parameter's value; Optuna stores the place of a choice, and whole numbers as floats."""
    try:
        described = fields(
            json.loads(distribution) if isinstance(distribution, str) else distribution
        )
        kind = str(described["name"])
        if kind == "CategoricalDistribution":
            return items(fields(described["attributes"])["choices"])[whole(value)]
        if kind.startswith("Int"):
            return whole(value)
    except (ValueError, KeyError, IndexError):
        return value
    return value
