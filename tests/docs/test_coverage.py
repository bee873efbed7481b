"""The page of what each algorithm has been shown to do says what the records say."""

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks.learning import coverage, records


def test_the_page_is_made_from_the_records_and_the_code_of_today() -> None:
    """No row claims a figure without its record, or calls a record current that is older."""
    advice = "run: python -m benchmarks.learning.coverage"
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), advice


def test_each_environment_of_an_algorithm_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record on a second game is kept beside the first one, and both are shown."""
    (own,) = records.records_of("c51_atari")
    second = {**own, "env_id": "PongNoFrameskip-v4"}
    for record in (own, second, {**second, "total_timesteps": 1}):
        place = records.place_for("c51_atari", record["env_id"], tmp_path)
        place.write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr(coverage, "records_of", partial(records.records_of, folder=tmp_path))
    breakout, pong = coverage.rows_of("c51_atari")
    assert f"| BreakoutNoFrameskip-v4 | {own['total_timesteps']:,} x 1 seed |" in breakout
    assert "461.9 ± 69.7" in breakout
    assert "| PongNoFrameskip-v4 | 1 x 1 seed |" in pong
    assert "none for this environment" in pong
