"""Settings come from the environment; a mistake in them never stops a run."""

import os
from pathlib import Path

import pytest
from support.frames import StartPython

from cleanrl_worker.fastlane import SITE_FOLDER, Settings, launch_environment, read_settings


def test_settings_are_read(run_id: str) -> None:
    """Every variable of the guide is obeyed."""
    given = {
        "MOSAIC_RUN_ID": run_id,
        "MOSAIC_RUN_DIR": "somewhere",
        "CLEANRL_FASTLANE_MODE": "grid",
        "CLEANRL_FASTLANE_SLOT": "3",
        "CLEANRL_FASTLANE_GRID_LIMIT": "9",
        "CLEANRL_FASTLANE_INTERVAL_MS": "50",
        "CLEANRL_FASTLANE_MAX_DIM": "320",
        "CLEANRL_FASTLANE_SHARE": "0.06",
    }
    assert read_settings(given) == Settings(run_id, "somewhere", "grid", 3, 9, 50.0, 320, 0.06)


def test_without_a_run_there_is_nothing_to_show(run_id: str) -> None:
    """No run id, or `off`, means no frames; an id that is no ULID is said and means the same."""
    assert read_settings({}) is None
    assert read_settings({"MOSAIC_RUN_ID": run_id, "CLEANRL_FASTLANE_MODE": "off"}) is None
    assert read_settings({"MOSAIC_RUN_ID": "../../etc"}) is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CLEANRL_FASTLANE_MODE", "gird", "did you mean 'grid'?"),
        ("CLEANRL_FASTLANE_SHARE", "200", "allowed is 0.0001 to 1.0"),
        ("CLEANRL_FASTLANE_MAX_DIM", "big", "allowed is 0 to 8192"),
        ("CLEANRL_FASTLANE_SLOT", "-1", "allowed is 0 to"),
    ],
)
def test_a_wrong_value_is_named_and_replaced(
    run_id: str, name: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log says which variable is wrong, what is allowed, and what is used instead."""
    assert read_settings({"MOSAIC_RUN_ID": run_id, name: value}) == Settings(run_id)
    text = capsys.readouterr().err
    assert name in text
    assert said in text
    assert "Using" in text


def test_the_launcher_gets_what_a_child_needs() -> None:
    """A run's extras become variables; what the user has on PYTHONPATH stays on it."""
    added = launch_environment(
        {"fastlane_video_mode": "grid", "fastlane_grid_limit": 9, "notes": "x"},
        {"PYTHONPATH": "mine", "DISPLAY": ":0"},
    )
    assert added["PYTHONPATH"] == os.pathsep.join([str(SITE_FOLDER), "mine"])
    assert added["CLEANRL_FASTLANE_MODE"] == "grid"
    assert added["CLEANRL_FASTLANE_GRID_LIMIT"] == "9"
    assert "MUJOCO_GL" not in added
    assert Path(SITE_FOLDER, "sitecustomize.py").exists()
    assert launch_environment({"fastlane_video_mode": "off"}, {}) == {
        "CLEANRL_FASTLANE_MODE": "off"
    }


def test_sweeping_needs_no_numpy(start_python: StartPython) -> None:
    """The daemon removes leftovers at its start without loading what only viewers need."""
    code = "import sys; from mosaic.fastlane import sweep_leftovers; print('numpy' in sys.modules)"
    assert start_python("-c", code).line() == "False\n"
