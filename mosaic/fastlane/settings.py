"""Whether and how a process shows its environments: environment variables, and a switch."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from mosaic.config.suggest import nearest
from mosaic.runs.ids import is_run_id

Mode = Literal["single", "grid", "off"]

RUN_ID = "MOSAIC_RUN_ID"
RUN_DIR = "MOSAIC_RUN_DIR"
MODE = "CLEANRL_FASTLANE_MODE"
SLOT = "CLEANRL_FASTLANE_SLOT"
GRID_LIMIT = "CLEANRL_FASTLANE_GRID_LIMIT"
INTERVAL_MS = "CLEANRL_FASTLANE_INTERVAL_MS"
MAX_DIM = "CLEANRL_FASTLANE_MAX_DIM"
SHARE = "CLEANRL_FASTLANE_SHARE"

_MODES = ("single", "grid", "off")
_Number = TypeVar("_Number", int, float)
_said: set[str] = set()
# A context variable, not a flag: environments may be built on several threads at once.
_tapping: ContextVar[bool] = ContextVar("fastlane_tapping", default=True)


def say_once(text: str) -> None:
    """Print a sentence on stderr unless this process has printed it before."""
    if text not in _said:
        _said.add(text)
        with suppress(OSError, ValueError):
            # stderr may be closed or full: a sentence is not worth a training run.
            print(f"[fastlane] {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a process shows its environments.

    Attributes:
        run_id: The run whose readers shall see the frames.
        run_dir: Its directory, used when shared memory is full; None when there is none.
        mode: `single` shows one environment, `grid` the first few as tiles, `off` none.
        slot: Which environment `single` shows, in the order in which they are first reset.
        grid_limit: How many environments `grid` shows.
        interval_ms: Least time between two frames of an environment.
        max_dim: Largest side of the picture in pixels; 0 means as rendered.
        share: Largest part of the process's time that may go into rendering.
    """

    run_id: str
    run_dir: str | None = None
    mode: Mode = "single"
    slot: int = 0
    grid_limit: int = 4
    interval_ms: float = 33.0
    max_dim: int = 640
    share: float = 0.02


def read_settings(environment: Mapping[str, str] | None = None) -> Settings | None:
    """Return the settings in force, or None when no frames are wanted.

    A value that makes no sense is named once on stderr and replaced by its default: a typing
    mistake here must not stop a training run.
    """
    values = os.environ if environment is None else environment
    run_id = values.get(RUN_ID, "")
    if not run_id:
        return None
    if not is_run_id(run_id):
        # It becomes part of a file's name, so nothing else is let through.
        say_once(f"no live frames: {RUN_ID} is {run_id[:40]!r}, which is not a ULID")
        return None
    mode = _read_mode(values)
    if mode == "off":
        return None
    standard = Settings(run_id)
    return Settings(
        run_id=run_id,
        run_dir=values.get(RUN_DIR) or None,
        mode=mode,
        slot=_read_number(values, SLOT, standard.slot, 0, 1_000_000),
        grid_limit=_read_number(values, GRID_LIMIT, standard.grid_limit, 1, 64),
        interval_ms=_read_number(values, INTERVAL_MS, standard.interval_ms, 1.0, 60_000.0),
        max_dim=_read_number(values, MAX_DIM, standard.max_dim, 0, 8192),
        share=_read_number(values, SHARE, standard.share, 0.0001, 1.0),
    )


def _read_mode(values: Mapping[str, str]) -> Mode:
    given = values.get(MODE, "").strip().lower() or "single"
    if given in _MODES:
        return cast(Mode, given)
    close = nearest(given, _MODES)
    hint = f"did you mean {close!r}? " if close else ""
    say_once(f"{MODE} is {given!r}; allowed are {', '.join(_MODES)}. {hint}Using 'single'")
    return "single"


def _read_number(
    values: Mapping[str, str], name: str, default: _Number, low: _Number, high: _Number
) -> _Number:
    given = values.get(name, "").strip()
    if not given:
        return default
    try:
        number = type(default)(given)
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        say_once(f"{name} is {given!r}; allowed is {low} to {high}. Using {default}")
        return default
    return number


def is_tapping() -> bool:
    """Tell whether environments that are built here and now get a tap."""
    return _tapping.get()


@contextmanager
def untapped() -> Iterator[None]:
    """Build environments without a tap: a batch shown by one tap, or an env made to draw with."""
    token = _tapping.set(False)
    try:
        yield
    finally:
        _tapping.reset(token)
