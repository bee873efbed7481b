"""Homes that cannot be used say so in one line, and full ones start however full they are."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

from mosaic.client import TrainerClient
from mosaic.connect import starting
from mosaic.runs.ids import new_run_id

MakeTrainer = Callable[..., Trainer]
MOSAIC = str(Path(sys.executable).with_name("mosaic"))
_READ_ONLY = """
mount -t tmpfs -o ro tmpfs "$1" || exit 99
MOSAIC_HOME="$1/home" exec "$2" up
"""
# What `flock` answers on some network file systems.
_NO_LOCKS = """
import errno, fcntl, os
def flock(descriptor, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
fcntl.flock = flock
"""


def _one_line(ended: "subprocess.CompletedProcess[str]", says: str) -> None:
    assert ended.returncode == 2, ended
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert says in ended.stderr


def test_d07_a_read_only_home_is_refused_in_one_line(tmp_path: Path) -> None:
    """`mosaic up` on a disk that cannot be written names the home and what helps."""
    shell = ["unshare", "-rm", "sh", "-c", _READ_ONLY, "sh", str(tmp_path), MOSAIC]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if ended.returncode == 99 or "unshare" in ended.stderr:
        pytest.skip(f"no file system of its own: {ended.stderr.strip()}")
    _one_line(ended, "Read-only file system; choose another with MOSAIC_HOME")


def _up(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MOSAIC, "up"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_d07_a_home_that_cannot_exist_is_refused_in_one_line(tmp_path: Path) -> None:
    """A home below something that is no folder cannot be made; a missing one simply is."""
    (tmp_path / "file").touch()
    environment = {**os.environ, "MOSAIC_HOME": str(tmp_path / "file" / "home")}
    up = _up(environment)
    _one_line(up, "cannot be used")
    assert "choose another with MOSAIC_HOME" in up.stderr


def test_d07_a_home_without_locks_is_refused_in_one_line(tmp_path: Path) -> None:
    """Without locks two daemons could own one home, so none does."""
    (tmp_path / "sitecustomize.py").write_text(_NO_LOCKS)
    environment = {
        **os.environ,
        "MOSAIC_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(tmp_path),
    }
    up = _up(environment)
    _one_line(up, "cannot be locked: No locks available; put it on a local disk")


def _fill(trainer: Trainer, count: int) -> set[str]:
    """Many runs from one: copies of its files under ids of their own. The registry is lost."""
    original = trainer.ended(trainer.submit("short")).run_id
    trainer.kill()
    source = trainer.home.run_dir(original)
    events = (source / "events.jsonl").read_text()
    made = {original}
    for _ in range(count - 1):
        run_id = new_run_id()
        place = trainer.home.run_dir(run_id)
        place.mkdir()
        (place / "events.jsonl").write_text(events.replace(original, run_id))
        shutil.copy(source / "config.json", place)
        made.add(run_id)
    for path in trainer.home.trainer.glob("registry.sqlite3*"):
        path.unlink()
    return made


def _start_and_count(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> int:
    for name, value in trainer.environment().items():
        monkeypatch.setenv(name, value)
    with TrainerClient.connect(trainer.home, start=True) as client:
        try:
            return client.list_runs(page_size=1)[2]
        finally:
            client.shutdown()
            # What looks for processes that were left would look once for each of them.
            shutil.rmtree(trainer.home.runs)


def test_f36_a_full_home_gets_the_time_that_its_runs_need(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for a daemon that reads all runs again grows with their number."""
    trainer = make_trainer().start()
    made = _fill(trainer, 200)
    monkeypatch.setattr(starting, "_START_LIMIT_S", 0.0)
    monkeypatch.setattr(starting, "_START_LIMIT_PER_RUN_S", 0.5)
    assert _start_and_count(trainer, monkeypatch) == len(made)


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_f36_forty_thousand_runs_start_within_their_own_limit(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home of 40,000 runs whose registry was lost starts with `mosaic up`, on a busy machine."""
    trainer = make_trainer().start()
    made = _fill(trainer, 40_000)
    assert _start_and_count(trainer, monkeypatch) == len(made)
