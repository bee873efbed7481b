"""Configurations that are too much: refused in words, within bounded time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

from mosaic.errors import InvalidConfigError


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [60, 300, 450, 900])
def test_f33_a_deeply_nested_configuration_is_refused_in_words(
    trainer: Trainer, levels: int
) -> None:
    """However deep it is nested, the answer names the place and the limit."""
    config = trainer.config("short", extras={"deep": _deep(levels)})
    with pytest.raises(InvalidConfigError, match=r"levels deep|not valid JSON") as refused:
        trainer.client.submit(config)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("place", ["", "extras"])
def test_f33_tens_of_thousands_of_keys_are_refused_at_once(trainer: Trainer, place: str) -> None:
    """60,000 unknown keys cost no more than counting them."""
    many = {f"k{number}": 1 for number in range(60_000)}
    config = trainer.config("short", extras=many) if place else trainer.config("short", **many)
    assert len(json.dumps(config)) < 1_000_000
    with pytest.raises(InvalidConfigError, match=r"60,0.. keys; at most 1,000"):
        trainer.client.submit(config)


def test_f28_a_home_whose_path_is_too_long_says_so(
    make_trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    """SQLite's limit on paths is named, with the way out, instead of a traceback."""
    name = "/".join(["d" * 200] * 3)
    (tmp_path / name).parent.mkdir(parents=True)
    trainer = make_trainer(name)
    assert trainer.spawn().wait(timeout=PATIENCE_S) == 2
    assert "MOSAIC_HOME" in trainer.output()
    assert "Traceback" not in trainer.output()


def test_f29_a_home_that_the_locale_cannot_spell(make_trainer: Callable[..., Trainer]) -> None:
    """In the C locale, without UTF-8 mode, runs of a home with an accent in its path complete."""
    trainer = make_trainer("h\u00f6me")
    trainer.start(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    record = trainer.ended(trainer.submit("short"))
    assert (record.outcome, record.run_dir) == (
        "completed",
        str(trainer.home.run_dir(record.run_id)),
    )
