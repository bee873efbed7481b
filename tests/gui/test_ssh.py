"""The window on a home behind ssh: the whole workbench, frames too, and no ssh left after it."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.sshd import Sshd, sshd_at
from support.trainer import Trainer

from mosaic.config.paths import Home
from mosaic.connect.remote_home import SSH_VARIABLE

from .conftest import Driver, config_of


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server on which the shared daemon runs."""
    folder = tmp_path / "sshd"
    folder.mkdir()
    with sshd_at(folder, {}) as server:
        monkeypatch.setenv(SSH_VARIABLE, server.command())
        yield server


def test_the_window_works_on_a_home_behind_ssh(
    sshd: Sshd,
    shared_trainer: Trainer,
    trained: list[str],
    open_window: Callable[..., Driver],
    tmp_path: Path,
) -> None:
    """Runs, files and live frames come through the tunnel, also after it was cut."""
    address = sshd.address(shared_trainer.home.root)
    driver = open_window(Home.locate(tmp_path / "own"), addresses=[address])
    driver.connected()
    assert driver.window.windowTitle().endswith("@127.0.0.1")
    driver.until(lambda: "@127.0.0.1" in driver.window.status.daemon.text(), "it says who it is")
    assert set(trained) <= set(driver.services.store.runs)
    run_id = driver.submit(
        config_of("ppo", "cleanrl", env_id="CartPole-v1", total_timesteps=50_000_000, extras={})
    )
    driver.reaches(run_id, "EXEC")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("live")
    live = driver.window.run_panel.tab("live")
    driver.until(lambda: live.frames_shown >= 3, "frames")
    states: list[str] = []
    driver.services.link.state_changed.connect(lambda state: states.append(state.name))
    (tunnel,) = sshd.clients()
    os.kill(tunnel, signal.SIGKILL)
    shown = live.frames_shown
    driver.until(lambda: "lost" in states, "the cut is noticed")
    driver.until(lambda: driver.services.link.state.name == "connected", "connected again")
    driver.until(lambda: live.frames_shown > shown + 2, "frames again")
    ended: list[object] = []
    driver.services.link.ask(lambda client: client.cancel(run_id, grace_s=0.5), ended.append)
    driver.reaches(run_id, "TERM")
    driver.window.close()
    assert not sshd.clients()
