"""Faults that a window must live through: rows P16, X9 and G1 to G5 of the fault matrix."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qtpy.QtCore import QTimer, QUrl
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from gym_gui.background.storage import window_folder
from gym_gui.widgets import web_view

from .conftest import SLOW_SLOT_S, Driver, Watchdog, config_of


def test_p16_window_killed_or_closed(
    trainer: Trainer, open_window: Callable[..., Driver], tmp_path: Path
) -> None:
    """kill -9 of the window changes nothing; the next one shows the same runs, still going."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-m", "gym_gui", "--home", str(trainer.home.root)]
    with (tmp_path / "window.txt").open("wb") as output:
        window = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    run_id = str(trainer.client.submit(config_of()).run_id)
    trainer.wait_for(run_id, "EXEC")
    until(lambda: (trainer.home.root / "gui").exists() or window.poll() is None, "a window")
    time.sleep(1.0)
    assert window.poll() is None, (tmp_path / "window.txt").read_text()
    window.send_signal(signal.SIGKILL)
    window.wait()
    step = trainer.client.get(run_id).progress.step
    until(lambda: trainer.client.get(run_id).progress.step > step, "the run goes on")
    again = open_window(trainer.home)
    again.connected()
    assert again.reaches(run_id, "EXEC").pid == trainer.client.get(run_id).pid
    again.window.close()
    assert trainer.client.get(run_id).state == "EXEC"


def test_x9_web_view_stays_on_its_origin(monkeypatch: pytest.MonkeyPatch, qapp: Any) -> None:
    """A page can lead nowhere: other origins go to the browser when clicked, files never."""
    if web_view.web_engine_problem():
        pytest.skip(web_view.web_engine_problem())
    from qtpy.QtWebEngineCore import QWebEnginePage

    opened: list[str] = []
    monkeypatch.setattr(
        web_view.QDesktopServices, "openUrl", lambda url: opened.append(url.toString())
    )
    page, profile = web_view.make_page(QUrl("http://127.0.0.1:6006/"))
    kinds = QWebEnginePage.NavigationType
    clicked, typed = kinds.NavigationTypeLinkClicked, kinds.NavigationTypeTyped
    ask = page.acceptNavigationRequest
    assert ask(QUrl("http://127.0.0.1:6006/data"), clicked, True)
    assert not ask(QUrl("http://127.0.0.1:7007/"), typed, True)
    assert not ask(QUrl("file:///etc/passwd"), clicked, True)
    assert not ask(QUrl("https://elsewhere.example/"), typed, True)
    assert opened == []
    assert not ask(QUrl("https://elsewhere.example/"), clicked, True)
    assert opened == ["https://elsewhere.example/"]
    assert page.createWindow(QWebEnginePage.WebWindowType.WebBrowserTab) is None
    assert profile.isOffTheRecord()
    page.deleteLater()
    qapp.processEvents()
    profile.deleteLater()


def test_g1_daemon_killed_and_back(trainer: Trainer, open_window: Callable[..., Driver]) -> None:
    """A daemon that dies leaves a banner and the form as it was; the window finds the next one."""
    driver = open_window(trainer.home)
    driver.connected()
    run_id = driver.submit(config_of())
    driver.reaches(run_id, "EXEC")
    form = driver.train_form()
    form.name.setText("typed before the fall")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("logs")
    logs = driver.window.run_panel.tab("logs")
    logs.lifecycle.setChecked(True)
    driver.until(lambda: "run_started" in logs.text.toPlainText(), "the log")
    trainer.kill()
    driver.until(lambda: driver.window.banner.isVisible(), "the banner")
    assert "No trainer daemon" in driver.window.banner.text
    driver.window.binder.trigger("run.new")
    driver.spin(1.0)
    trainer.start()
    driver.until(lambda: driver.services.link.state.name == "connected", "it reconnects")
    driver.until(lambda: not driver.window.banner.isVisible(), "the banner goes")
    driver.reaches(run_id, "EXEC")
    assert form.name.text() == "typed before the fall"
    lines = logs.text.blockCount()
    driver.until(lambda: logs.text.blockCount() > lines, "the log is followed again")
    driver.services.link.ask(lambda client: client.cancel(run_id))
    assert driver.reaches(run_id, "TERM").outcome == "cancelled"


def test_g1_daemon_that_does_not_answer(
    trainer: Trainer, open_window: Callable[..., Driver]
) -> None:
    """A daemon stopped for seconds slows nothing in the window, which says that it waits."""
    driver = open_window(trainer.home)
    driver.connected()
    os.kill(trainer.pid, signal.SIGSTOP)
    try:
        ticks: list[float] = []
        timer = QTimer()
        timer.setInterval(20)
        timer.timeout.connect(lambda: ticks.append(time.monotonic()))
        timer.start()
        driver.until(lambda: driver.services.link.state.name == "slow", "it says so")
        timer.stop()
        assert "not answering" in driver.window.banner.text
        assert len(ticks) > 20, "the event loop kept turning"
    finally:
        os.kill(trainer.pid, signal.SIGCONT)
    driver.until(lambda: driver.services.link.state.name == "connected", "it is back")


def test_g1_window_starts_a_daemon(
    empty_home: Any, open_window: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window on a home without a daemon starts one; closing the window does not stop it."""
    from mosaic.client import TrainerClient

    monkeypatch.setenv("MOSAIC_SETTING_WARM_START", "false")
    driver = open_window(empty_home, start_daemon=True)
    driver.connected()
    assert driver.window.welcome.isVisible()
    driver.window.close()
    with TrainerClient.connect(empty_home) as client:
        assert client.health().pid
        client.shutdown("stop")


def test_g1_no_daemon_and_none_started(empty_home: Any, open_window: Callable[..., Driver]) -> None:
    """Without a daemon the window stays alive, says so and offers to start one."""
    driver = open_window(empty_home)
    driver.until(lambda: driver.services.link.state.name == "lost", "it says so")
    assert "mosaic up" in driver.window.banner.text
    assert not driver.window.binder.actions["run.submit"].isEnabled()


def test_g2_watchdog_catches_a_slow_slot(qapp: Any) -> None:
    """The watchdog itself: a slot that works too long is caught with the line it was in."""
    dog = qapp.watchdog = Watchdog()

    def slow_slot() -> None:
        until_then = time.thread_time() + SLOW_SLOT_S * 4
        while time.thread_time() < until_then:
            pass

    QTimer.singleShot(0, slow_slot)
    deadline = time.monotonic() + PATIENCE_S
    while not dog.slow and time.monotonic() < deadline:
        qapp.processEvents()
    qapp.watchdog = None
    dog.stop()
    assert "slow_slot" in dog.slow[0]


def test_g3_window_leaves_nothing(driver: Driver, trained: list[str]) -> None:
    """Every tab and layout was open; closing leaves no thread, timer, process or file."""
    for layout in ("train", "watch", "analyse", "play"):
        driver.window.show_layout(layout)
        driver.spin(0.1)
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.spin(0.2)
    for name in ("live", "charts", "replay", "logs", "details", "overview"):
        driver.window.run_panel.open_tab(name)
        driver.spin(0.15)
    assert driver.window.run_panel.tab("overview").active


def test_g4_no_web_engine(
    driver: Driver, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the web engine TensorBoard still runs and can be opened in the browser."""
    monkeypatch.setenv(web_view.NO_WEB_VARIABLE, "1")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.window.run_panel.open_tab("tensorboard")
    tab = driver.window.run_panel.tab("tensorboard")
    driver.until(lambda: tab.web.address, "the server", 40)
    assert not tab.web.embedded
    opened: list[str] = []
    monkeypatch.setattr(
        web_view.QDesktopServices, "openUrl", lambda url: opened.append(url.toString())
    )
    tab.web.open_in_browser()
    assert opened == [tab.web.address]
    pid = tab.server.pid
    driver.window.close()
    until(lambda: not _alive(pid), "the server ended with the window")


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


def test_g4_no_gpu(driver: Driver) -> None:
    """Without a GPU the switch is off and says why."""
    form = driver.train_form()
    form.machine.set_gpus(1)
    assert form.machine.gpu.isEnabled()
    form.machine.set_gpus(0)
    assert not form.machine.gpu.isEnabled()
    assert "No GPU" in form.machine.gpu_note.text()


@pytest.mark.parametrize("content", [b"\x00\xff garbage", b'{"version": 99}', b"[]"])
def test_g5_corrupt_layout(
    content: bytes, shared_trainer: Trainer, open_window: Callable[..., Driver]
) -> None:
    """A saved layout that makes no sense gives the default layout and one notice."""
    folder = window_folder(shared_trainer.home)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "window.json").write_bytes(content)
    driver = open_window(shared_trainer.home)
    driver.connected()
    notices = [n for n in driver.services.notices.history if "layout" in n.text]
    assert len(notices) == 1
    assert driver.window.docks.docks["launch"].isVisible()
    driver.window.close()
    again = open_window(shared_trainer.home)
    again.connected()
    assert not [n for n in again.services.notices.history if "layout" in n.text]


def test_tensorboard_is_embedded_and_readable(driver: Driver, trained: list[str]) -> None:
    """The TensorBoard tab shows the real page: its words can be read from the embedded view."""
    if web_view.web_engine_problem():
        pytest.skip(web_view.web_engine_problem())
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.window.run_panel.open_tab("tensorboard")
    tab = driver.window.run_panel.tab("tensorboard")
    driver.until(lambda: tab.web.embedded, "the page", 40)
    words: list[str] = []

    def read() -> bool:
        if tab.web.view is not None:
            tab.web.view.page().toPlainText(words.append)
        driver.spin(0.3)
        return any("TensorBoard" in text for text in words)

    driver.until(read, "TensorBoard's own words", 40)


def test_tensorboard_dies_with_a_killed_window() -> None:
    """A helper of the window does not outlive it, even when the window is killed."""
    helper = "import time; print('up', flush=True); time.sleep(60)"
    bound = "gym_gui.background.dies_with_parent"
    tether = f"['{sys.executable}', '-m', '{bound}', '{sys.executable}', '-c', "
    program = (
        "import subprocess, time\n"
        f"child = subprocess.Popen({tether}{helper!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\nprint(child.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    assert _alive(pid)
    parent.kill()
    parent.wait()
    until(lambda: not _alive(pid), "the helper is gone", 10)


def test_run_deleted_under_each_open_tab(driver: Driver, trained: list[str]) -> None:
    """Whatever tab of a run is open when the run is deleted, the window says so and lives on."""
    run_id = driver.submit(config_of(total_timesteps=20, extras={"step_ms": 1}))
    driver.reaches(run_id, "TERM")
    driver.window.show_layout("watch")
    panel = driver.window.run_panel
    for name in ("overview", "charts", "logs", "details"):
        driver.window.runs_panel.show_run(run_id)
        driver.until(lambda: driver.services.selection.current == run_id, "selected")
        panel.open_tab(name)
        tab = panel.tab(name)
        driver.until(lambda: tab.active, "the tab is at work")  # noqa: B023
        driver.spin(0.2)
        driver.window.binder.trigger("run.delete")
        driver.until(lambda: run_id not in driver.services.store.runs, "the run is gone")
        driver.until(lambda: not tab.active or tab.run_id != run_id, "the tab let go")  # noqa: B023
        if driver.services.selection.current == run_id:
            assert panel.message == "This run is gone"
        driver.window.binder.trigger("run.undo_delete")
        driver.until(lambda: run_id in driver.services.store.runs, "the run is back")
    errors = [n.text for n in driver.services.notices.history if n.tone == "danger"]
    assert not errors


def test_run_folder_that_vanishes_under_an_open_tab(driver: Driver) -> None:
    """A run's files removed by hand leave words where its logs and curves were."""
    run_id = driver.submit(config_of(total_timesteps=20, extras={"step_ms": 1}))
    folder = Path(driver.reaches(run_id, "TERM").run_dir)
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.until(lambda: driver.services.selection.current == run_id, "selected")
    panel = driver.window.run_panel
    panel.open_tab("logs")
    logs = panel.tab("logs")
    driver.until(lambda: "lines" in logs.status, "the log")
    shutil.rmtree(folder)

    def opened(name: str) -> Any:
        panel.open_tab(name)
        return panel.tab(name)

    details = opened("details")
    driver.until(lambda: "config.json" in details.config.toPlainText(), "what is missing is named")
    assert "metadata" not in details.config.toPlainText()
    overview = opened("overview")
    driver.until(lambda: overview.tiles["Progress"].number == "100 %", "what the daemon knows")
    opened("logs")
    driver.until(lambda: logs.status not in ("", "Reading …"), "the log says so")
    assert logs.text.toPlainText() == ""
    errors = [n.text for n in driver.services.notices.history if n.tone == "danger"]
    assert not errors, "said where the files were, not in a corner of the window"
