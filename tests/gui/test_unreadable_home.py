"""The window uses the SDK alone: it works against a home that it cannot read.

Nothing but an invitation connects the two. The window runs in a mount namespace of its own in
which an empty folder lies over the daemon's home; what it shows can only have come through the
daemon.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.trainer import Trainer

import gym_gui
from mosaic.config.paths import project_root
from mosaic.connect.invitation import Invitation

_PACKAGE = Path(gym_gui.__file__).parent
# Where a run's directory may be named: only to be read by people, or sent back to the daemon.
_SHOWN_AS_TEXT = {
    "presenters/selection_commands.py",  # opened in the user's own file manager
    "tabs/wandb_tab.py",  # part of a command to copy
    "background/run_reading.py",  # the same command, put together
    "forms/run_source.py",  # the path of a checkpoint in a config, which the worker opens
    "models/health.py",  # the same path, compared with a run's checkpoints
}


@pytest.fixture
def with_files(extra_files: Path) -> None:
    """The second trained run also has a video, a study and a folder of W&B."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    summaries = extra_files / "wandb" / "offline-run-20260101_000000-abc" / "files"
    summaries.mkdir(parents=True)
    (summaries / "wandb-summary.json").write_text(json.dumps({"charts/return": 12.5}))
    storage = optuna.storages.RDBStorage(f"sqlite:///{extra_files / 'optuna.db'}")
    study = optuna.create_study(storage=storage, study_name="s")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    storage.engine.dispose()
    (extra_files / "videos").mkdir(exist_ok=True)
    _film(extra_files / "videos" / "episode.mp4")


def _film(path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    source = ["-f", "lavfi", "-i", "testsrc=duration=1:size=64x64:rate=10"]
    subprocess.run([ffmpeg, "-v", "error", *source, str(path)], check=True)


def _without(home: Path) -> list[str]:
    """The start of a command that cannot see a folder."""
    hide = 'mount -t tmpfs none "$0" && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, str(home)]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a folder cannot be hidden from one process here: {error}")
    return command


def test_window_needs_nothing_of_the_home(
    shared_trainer: Trainer,
    trained: list[str],
    with_files: None,
    tmp_path: Path,
    python_path: str,
) -> None:
    """Every tab, comparing, cloning, continuing, evaluating: all of it through the daemon."""
    invitation = tmp_path / "invitation.json"
    Invitation.to_home(shared_trainer.home).save(invitation)
    tests = project_root() / "tests"
    paths = [python_path, str(tests), str(tests / "gui")]
    window = [sys.executable, str(tests / "gui" / "stranger.py")]
    done = subprocess.run(
        [*_without(shared_trainer.home.root), *window, invitation, tmp_path / "own", *trained],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["home_is_hidden"]
    assert seen["charts"] > 5
    assert "lines" in seen["logs"]
    assert seen["tensorboard"] >= 1
    assert seen["video"] == 10
    assert seen["wandb"]
    assert seen["optuna"] == 3
    assert seen["failure"].startswith("Failed")
    assert seen["frames"] >= 3
    assert seen["differences"] == ["seed"]
    assert seen["cloned_seed"] == 2
    assert seen["resumed"] == "completed"
    assert seen["evaluated"] == "completed"
    assert seen["problems"] == []


def test_window_names_no_path_of_a_run() -> None:
    """`run_dir` is only shown to people or sent back to the daemon, never opened."""
    found = set()
    for path in _PACKAGE.rglob("*.py"):
        name = path.relative_to(_PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            used = isinstance(node, ast.Attribute) and node.attr == "run_dir"
            used |= isinstance(node, ast.Name) and node.id == "run_dir"
            if used:
                found.add(name)
    assert found == _SHOWN_AS_TEXT
