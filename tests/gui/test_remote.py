"""Beyond this machine: frames over the network, runs as files, W&B behind a proxy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qtpy.QtCore import QMimeData, QPointF, Qt, QUrl
from qtpy.QtGui import QDropEvent
from qtpy.QtWidgets import QFileDialog

from gym_gui.presenters.run_archives import ENDING, proposed_name

from .conftest import Driver, config_of
from .test_models import record


def _drop(driver: Driver, path: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path))])
    driver.window.dropEvent(
        QDropEvent(
            QPointF(5, 5),
            Qt.DropAction.CopyAction,
            mime,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )


def test_live_view_over_the_network(driver: Driver) -> None:
    """A window that cannot share the daemon's memory sees the same frames through the daemon."""
    driver.window._change_settings(frame_source="network")
    run_id = driver.submit(
        config_of("ppo", "cleanrl", env_id="CartPole-v1", total_timesteps=50_000_000, extras={})
    )
    driver.reaches(run_id, "EXEC")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("live")
    live = driver.window.run_panel.tab("live")
    driver.until(lambda: live.frames_shown >= 3, "frames", 40)
    assert live._feed.over_network
    assert live._feed._local is None
    seen = live.view.image.copy()
    driver.until(lambda: live.view.image != seen, "the picture changes")
    assert live.view.image.width() > 100
    driver.window.run_panel.open_tab("overview")
    assert live._feed is None
    driver.window._change_settings(frame_source="automatic")


def test_runs_leave_as_a_file_and_come_in_by_dropping_it(
    driver: Driver,
    trained: list[str],
    trainer: Any,
    open_window: Callable[..., Driver],
    tmp_path: Path,
) -> None:
    """Export, drop the file on the window of another home: the run is there with its curves."""
    driver.window.runs_panel.show_run(trained[0])
    driver.until(lambda: driver.services.selection.current == trained[0], "selected")
    driver.window.binder.trigger("run.export")
    dialog = driver.until(lambda: driver.window.findChild(QFileDialog), "the dialog")
    path = tmp_path / f"cartpole{ENDING}"
    dialog.fileSelected.emit(str(path))
    dialog.close()
    driver.until(lambda: any(path.name in n.text for n in driver.services.notices.history), "done")
    other = open_window(trainer.home)
    other.connected()
    _drop(other, path)
    other.until(lambda: trained[0] in other.services.store.runs, "the run is here")
    other.until(lambda: other.services.selection.current == trained[0], "and selected")
    assert other.run(trained[0])["outcome"] == "completed"
    _drop(other, path)
    texts = lambda: [notice.text for notice in other.services.notices.history]  # noqa: E731
    other.until(lambda: any("here already" in text for text in texts()), "nothing twice")
    broken = tmp_path / f"broken{ENDING}"
    broken.write_bytes(path.read_bytes()[:5000])
    _drop(other, broken)
    other.until(lambda: any("broken" in t and "not imported" in t for t in texts()), "refused")


def test_archives_are_named_after_their_runs() -> None:
    """A proposed file name says which run it holds and is a name on any file system."""
    name = proposed_name([record(run_name="a/b: c", run_id="01ABCDEFGH")])
    assert name == f"a-b--c-cdefgh{ENDING}"
    assert proposed_name([record(), record()]) == f"2-runs{ENDING}"
