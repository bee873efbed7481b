"""Phases of a script as a form holds them: settings typed in a line, and marks on charts."""

from collections.abc import Iterable, Mapping, Sequence

from gym_gui.models.form_fields import HANDLED, Field, FieldError
from gym_gui.models.form_grid import read_lines
from mosaic.config.model import Parameters
from mosaic.config.suggest import did_you_mean
from mosaic.records import RunEvent
from mosaic.workers.facts import ArgumentFacts

Mark = tuple[float, str]


def read_settings(
    text: str, arguments: Sequence[ArgumentFacts], algo: str
) -> tuple[Parameters, str]:
    """`learning_rate=1e-4; num_envs=8` as values, and what is wrong with it.

    Args:
        text: What was typed.
        arguments: Those of the algorithm, as its worker describes them.
        algo: For messages.
    """
    known = {one["name"]: one for one in arguments if one["name"] not in HANDLED}
    values: Parameters = {}
    for line in read_lines(text):
        typed, equals, value = line.partition("=")
        name = typed.strip().removeprefix("--").replace("-", "_")
        if not equals or not value.strip():
            return values, f"{line!r} is no setting: write name=value; name=value"
        if name not in known:
            return values, f"{algo} has no setting {name!r}{did_you_mean(name, known)}"
        try:
            values[name] = Field.from_argument(known[name]).parse(value)
        except FieldError as error:
            return values, f"{name} {error}"
    return values, ""


def settings_text(values: Mapping[str, object]) -> str:
    """Values as they would be typed; the inverse of `read_settings`."""
    shown = {name: "none" if value is None else _typed(value) for name, value in values.items()}
    return "; ".join(f"{name}={value}" for name, value in shown.items())


def _typed(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def phase_marks(events: Iterable[RunEvent]) -> tuple[Mark, ...]:
    """Where each phase of a script, and each stage of a curriculum, began, and its name."""
    found: dict[float, str] = {}
    for event in events:
        said = event.data
        step = said.get("step")
        if event.kind != "worker_note" or not isinstance(step, int):
            continue
        if said.get("event") == "phase_started":
            found[float(step)] = str(said.get("name") or "")
        elif said.get("event") == "curriculum_stage":
            found[float(step)] = str(said.get("env_id") or "")
    return tuple(sorted(found.items()))
