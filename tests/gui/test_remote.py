"""Beyond this machine: frames over the network, runs as files, W&B behind a proxy."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from qtpy.QtCore import QMimeData, QPointF, Qt, QUrl
from qtpy.QtGui import QDropEvent
from qtpy.QtWidgets import QFileDialog

from gym_gui.background import frame_source
from gym_gui.models.wandb_proxy import may_be_shown
from gym_gui.presenters.run_archives import ENDING, proposed_name
from gym_gui.widgets.web_view import WebView, web_engine_problem
from mosaic.fastlane.segment import DIRECTORY_VARIABLE

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


def test_live_view_over_the_network(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A window that cannot share the daemon's memory sees the same frames through the daemon.

    Told to, or by itself: shared memory that brings nothing is not waited for.
    """
    driver.window.change_settings(replace(driver.window.services.settings, frame_source="network"))
    run_id = driver.submit(
        config_of("ppo", "cleanrl", env_id="CartPole-v1", total_timesteps=50_000_000, extras={})
    )
    driver.reaches(run_id, "EXEC")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("live")
    live = driver.window.run_panel.tab("live")
    driver.until(lambda: live.frames_shown >= 3, "frames", 40)
    assert live.feed.over_network
    assert not live.feed.over_memory
    seen = live.view.image.copy()
    driver.until(lambda: live.view.image != seen, "the picture changes")
    assert live.view.image.width() > 100
    driver.window.run_panel.open_tab("overview")
    assert live.feed is None
    driver.window.change_settings(
        replace(driver.window.services.settings, frame_source="automatic")
    )
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setattr(frame_source, "_LOCAL_PATIENCE_MS", 300)
    shown = live.frames_shown
    driver.window.run_panel.open_tab("live")
    driver.until(lambda: live.frames_shown > shown + 2, "frames without shared memory", 40)
    assert live.feed.over_network
    assert live.feed.over_memory


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
    assert other.run(trained[0]).outcome == "completed"
    _drop(other, path)
    texts = lambda: [notice.text for notice in other.services.notices.history]  # noqa: E731
    other.until(lambda: any("already here" in text for text in texts()), "nothing twice")
    broken = tmp_path / f"broken{ENDING}"
    broken.write_bytes(path.read_bytes()[:5000])
    _drop(other, broken)
    other.until(lambda: any("broken" in t and "not imported" in t for t in texts()), "refused")


def test_archives_are_named_after_their_runs() -> None:
    """A proposed file name says which run it holds and is a name on any file system."""
    name = proposed_name([record(run_name="a/b: c", run_id="01ABCDEFGH")])
    assert name == f"a-b--c-cdefgh{ENDING}"
    assert proposed_name([record(), record()]) == f"2-runs{ENDING}"


class _Proxy(BaseHTTPRequestHandler):
    """A proxy that stands for the whole outside: it answers for the site itself."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self._answer(b"<html><title>hosted</title><body>hosted page of the run</body></html>")

    def _answer(self, text: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Here(_Proxy):
    """A page on this machine, such as TensorBoard's."""

    asked: ClassVar[list[str]] = []


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, name="site", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _words(driver: Driver, web: Any) -> str:
    found: list[str] = []
    driver.until(lambda: web.view is not None, "a page")
    web.view.page().toPlainText(found.append)
    driver.until(lambda: found, "the page's words")
    return found[0]


@pytest.fixture
def tracked(extra_files: Path) -> Iterator[Path]:
    """The folder of a run that others share, for once with a folder of W&B."""
    changed = (extra_files / "analytics.json", extra_files / "config.json")
    before = {path: path.read_text() for path in changed}
    (extra_files / "wandb" / "run-1").mkdir(parents=True)
    yield extra_files
    for path, text in before.items():
        path.write_text(text)


def test_hosted_wandb_page_comes_through_the_proxy(
    driver: Driver, trained: list[str], tracked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's own proxy is used for its hosted page, and for no page on this machine."""
    if web_engine_problem():
        pytest.skip(web_engine_problem())
    monkeypatch.setenv("WANDB_BASE_URL", "http://wandb.invalid")
    manifest, config = tracked / "analytics.json", tracked / "config.json"
    with _serving(_Proxy) as port, _serving(_Here) as here:
        about = json.loads(manifest.read_text())
        about.setdefault("artifacts", {})["wandb"] = {
            "enabled": True, "mode": "online", "dir": "wandb/run-1", "run_path": "me/p/1",
            "url": "http://wandb.invalid/me/p/runs/1",
        }  # fmt: skip
        manifest.write_text(json.dumps(about))
        asked = json.loads(config.read_text())
        extras = asked["metadata"]["worker"]["config"]["extras"]
        extras["wandb_use_vpn_proxy"] = True
        extras["wandb_http_proxy"] = f"http://127.0.0.1:{port}"
        config.write_text(json.dumps(asked))
        driver.window.show_layout("watch")
        driver.window.runs_panel.show_run(trained[1])
        driver.until(lambda: driver.services.selection.current == trained[1], "selected")
        driver.window.run_panel.refresh()
        driver.window.run_panel.open_tab("wandb")
        tab = driver.window.run_panel.tab("wandb")
        driver.until(lambda: tab.load_page.isVisible(), "there is a hosted page")
        tab.load_page.click()
        driver.until(lambda: "hosted page of the run" in _words(driver, tab.web), "its words", 30)
        assert any(path.startswith("http://wandb.invalid/") for path in _Proxy.asked)
        local = WebView()
        local.show_address(f"http://127.0.0.1:{here}/")
        driver.until(lambda: "hosted page" in _words(driver, local), "a page from here", 30)
        assert _Here.asked
        assert not any(str(here) in path for path in _Proxy.asked)
        local.close_page()
        tab.web.close_page()
        local.deleteLater()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://wandb.ai/me/p/runs/1", True),
        ("http://wandb.ai/me/p/runs/1", False),
        ("http://own.server:8080/x", True),
        ("http://own.server:9/x", False),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
    ],
)
def test_only_addresses_of_wandb_are_shown(
    address: str, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest that lies cannot lead the embedded page anywhere else."""
    monkeypatch.setenv("WANDB_BASE_URL", "http://own.server:8080")
    assert may_be_shown(address) is shown
