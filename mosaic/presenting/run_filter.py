"""The filter language of the run table.

Words match anywhere in a run's name, id, algorithm, environment, tags and notes. `key:word`
matches one field, `key>number` and its kind compare a number, `-` in front turns a term round.
A field is one of the run's own, a setting of its config, or a metric::

    algo:ppo env:cartpole state:running return>100 tag:baseline -seed:3 learning_rate<0.001
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping

from mosaic.config.suggest import did_you_mean
from mosaic.errors import FilterError
from mosaic.presenting.run_status import status_of
from mosaic.records import RunRecord

Predicate = Callable[[RunRecord], bool]
# The value of a run's setting or metric by name, and the names there are.
Lookup = Callable[[RunRecord, str], object]


def _text(run: RunRecord) -> str:
    parts = (run.run_name, run.run_id, run.algo, run.env_id, run.worker)
    return " ".join((*map(str, parts), *run.tags, run.notes or "")).lower()


def _metric(name: str) -> Callable[[RunRecord], float | None]:
    return lambda run: run.metrics.get(name)


_WORDS: Mapping[str, Callable[[RunRecord], str]] = {
    "algo": lambda run: run.algo,
    "env": lambda run: run.env_id,
    "id": lambda run: run.run_id,
    "mode": lambda run: run.mode or "",
    "name": lambda run: run.run_name,
    "notes": lambda run: run.notes or "",
    "outcome": lambda run: run.outcome or "",
    "parent": lambda run: run.parent_run_id or "",
    "state": lambda run: f"{run.state} {status_of(run).label}",
    "tag": lambda run: " ".join(run.tags),
    "worker": lambda run: run.worker,
}
_NUMBERS: Mapping[str, Callable[[RunRecord], float | None]] = {
    "progress": lambda run: run.progress.fraction * 100,
    "return": _metric("episodic_return"),
    "length": _metric("episodic_length"),
    "seed": lambda run: run.seed,
    "sps": lambda run: run.progress.sps,
    "step": lambda run: run.progress.step,
}
FIELDS = tuple(sorted({*_WORDS, *_NUMBERS}))
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
    ":": lambda a, b: a == b,
}
_TERM = re.compile(r"(-?)([A-Za-z_][\w./]*)(>=|<=|>|<|=|:)(.*)\Z")


def compile_filter(
    text: str, names: Collection[str] = (), value_of: Lookup | None = None
) -> Predicate | None:
    """A function that says whether a run fits; None when everything does.

    Args:
        text: As typed.
        names: Settings and metrics that can be asked for.
        value_of: Gives the value of one of them.

    Raises:
        FilterError: With the part that is wrong and the nearest valid field.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        # A quote without its end: the filter is still being typed.
        words = text.split()
    terms = [_term(word, names, value_of) for word in words]
    if not terms:
        return None
    return lambda run: all(term(run) for term in terms)


def named_fields(text: str) -> set[str]:
    """The fields in a filter that are none of a run's own."""
    matches = (_TERM.match(word) for word in text.split())
    return {match[2] for match in matches if match and match[2].lower() not in FIELDS}


def _term(word: str, names: Collection[str], value_of: Lookup | None) -> Predicate:
    match = _TERM.match(word)
    if not match:
        return _plain(word)
    minus, key, operator, value = match.groups()
    if key.lower() not in FIELDS and key in names and value_of is not None:
        test = _named(key, operator, value, value_of)
    else:
        test = _field(key.lower(), operator, value, names)
    return (lambda run: not test(run)) if minus else test


def _plain(word: str) -> Predicate:
    if word.startswith("-") and len(word) > 1:
        unwanted = word[1:].lower()
        return lambda run: unwanted not in _text(run)
    wanted = word.lower()
    return lambda run: wanted in _text(run)


def _named(key: str, operator: str, value: str, value_of: Lookup) -> Predicate:
    """A setting or a metric: compared as a number where both are one, as a word otherwise."""
    try:
        wanted: float | None = float(value)
    except ValueError:
        wanted = None
        if operator not in (":", "="):
            raise FilterError(f"{key}{operator} needs a number, not {value!r}") from None
    compare, word = _COMPARE[operator], value.lower()

    def fits(run: RunRecord) -> bool:
        given = value_of(run, key)
        if wanted is not None and isinstance(given, (int, float)):
            return compare(float(given), wanted)
        if given is None or operator not in (":", "="):
            return False
        return word in str(given).lower() if operator == ":" else word == str(given).lower()

    return fits


def _field(key: str, operator: str, value: str, names: Collection[str]) -> Predicate:
    if key in _NUMBERS:
        return _numeric(key, operator, value)
    if key in _WORDS:
        if operator not in (":", "="):
            raise FilterError(f"{key} holds words, so use {key}:word instead of {key}{operator}")
        get, wanted = _WORDS[key], value.lower()
        if operator == "=":
            return lambda run: get(run).lower() == wanted
        return lambda run: wanted in get(run).lower()
    raise FilterError(f"there is no field {key!r}{did_you_mean(key, [*FIELDS, *names])}")


def _numeric(key: str, operator: str, value: str) -> Predicate:
    try:
        wanted = float(value)
    except ValueError:
        raise FilterError(f"{key}{operator} needs a number, not {value!r}") from None
    get, compare = _NUMBERS[key], _COMPARE[operator]

    def fits(run: RunRecord) -> bool:
        given = get(run)
        return given is not None and compare(float(given), wanted)

    return fits
