"""What is private is private whatever the umask, and what another user made is not trusted."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

from mosaic.config.paths import Home
from mosaic.config.settings import Settings, load_settings, save_settings
from mosaic.connect import auth
from mosaic.errors import InvalidConfigError, SecretError, StorageError

MakeTrainer = Callable[..., Trainer]
OTHER = 4242
as_superuser = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")


def _reachable_by_others(root: Path) -> list[Path]:
    """The files a second user gets at: through every folder, and by their own mode."""
    found = []
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        folders[:] = [name for name in folders if (here / name).stat().st_mode & stat.S_IXOTH]
        found += [here / name for name in files if (here / name).stat().st_mode & 0o006]
    return found


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_f19_no_file_of_a_home_is_open_to_others(make_trainer: MakeTrainer, umask: int) -> None:
    """Logs, the daemon's log and settings are the owner's alone, also with an open umask."""
    before = os.umask(umask)
    try:
        trainer = make_trainer()
        save_settings(trainer.home, Settings(cpu_slots=1))
        trainer.start()
        run_id = trainer.submit("short")
        trainer.ended(run_id)
        trainer.client.delete(run_id)
    finally:
        os.umask(before)
    home = trainer.home
    assert (home.logs / run_id / "stdout.log").exists()
    assert _reachable_by_others(home.root) == []
    assert home.settings.stat().st_mode & 0o077 == 0
    for folder in (home.daemon_log.parent, home.trainer, home.logs, home.cache):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert home.root.stat().st_mode & 0o022 == 0


def test_f19_an_open_home_of_an_older_version_is_closed(make_trainer: MakeTrainer) -> None:
    """Folders that an older version left open are closed by the next start."""
    trainer = make_trainer()
    for folder in (trainer.home.logs, trainer.home.runs):
        folder.mkdir(parents=True)
    for folder in (trainer.home.root, trainer.home.logs.parent, trainer.home.logs):
        folder.chmod(0o777)
    trainer.start()
    assert trainer.home.root.stat().st_mode & 0o022 == 0
    assert trainer.home.logs.parent.stat().st_mode & 0o777 == 0o700


def test_f19_settings_that_others_may_write_are_refused(tmp_path: Path) -> None:
    """Settings that another user could have written are not obeyed; the fix is named."""
    home = Home(tmp_path)
    home.settings.write_text(json.dumps({"cpu_slots": 1}))
    home.settings.chmod(0o666)
    with pytest.raises(InvalidConfigError, match=f"chmod 600 {home.settings}"):
        load_settings(home)
    home.settings.chmod(0o644)
    assert load_settings(home).cpu_slots == 1


def test_f19_a_shared_folder_is_no_home(tmp_path: Path) -> None:
    """A folder such as the temporary one is refused, and its mode is left alone."""
    tmp_path.chmod(0o1777)
    with pytest.raises(StorageError, match="shared by all users"):
        Home(tmp_path).create()
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


@as_superuser
def test_f20_a_planted_home_is_refused(make_trainer: MakeTrainer) -> None:
    """A daemon does not start in a home, or with a token, that another user prepared."""
    trainer = make_trainer()
    trainer.home.create()
    os.chown(trainer.home.root, OTHER, OTHER)
    refused = trainer.spawn()
    assert refused.wait(timeout=PATIENCE_S) == 2
    assert f"{trainer.home.root} belongs to user {OTHER}" in trainer.output()
    os.chown(trainer.home.root, 0, 0)
    auth.load_or_create_token(trainer.home.token)
    os.chown(trainer.home.token, OTHER, OTHER)
    with pytest.raises(SecretError, match="not trusted"):
        auth.load_token(trainer.home.token)
    refused = trainer.spawn()
    assert refused.wait(timeout=PATIENCE_S) == 2
    assert "not trusted" in trainer.output()


@as_superuser
def test_f20_settings_of_another_user_are_refused(tmp_path: Path) -> None:
    """Settings that belong to another user are not obeyed."""
    home = Home(tmp_path)
    save_settings(home, Settings(cpu_slots=1))
    os.chown(home.settings, OTHER, OTHER)
    with pytest.raises(InvalidConfigError, match="belongs to user 4242"):
        load_settings(home)
