"""Pictures of the window, a page and the board on a home behind ssh, for docs/guides/remote.md.

    python scripts/remote_pictures.py ssh://you@server/~/lab [ssh://you@login.cluster …]

The accounts need a key that is accepted without a question. Runs are trained there for the pictures
and stopped afterwards. The window and the page show the first; the board shows all of them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mosaic.client import TrainerClient
from mosaic.records import RunRecord

_MOSAIC = str(Path(sys.executable).with_name("mosaic"))
_CHROMIUM = "/usr/bin/chromium"
_SIZE = (1280, 800)
_PATIENCE_S = 240.0
# Enough of a curve to see that it learns.
_LEARNING_S = 25.0


def main() -> int:
    """Train there, look at it from here, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    options = parser.parse_args()
    out: Path = options.out.absolute()
    first, *others = options.addresses
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from gym_gui.app import make_application

    # Kept: windows need it for as long as they are open.
    application = make_application()
    with (
        tempfile.TemporaryDirectory() as own,
        TrainerClient.connect(first, start=True) as trainer,
    ):
        os.environ["MOSAIC_HOME"] = own
        run = _train(trainer)
        try:
            _picture_of_window(first, run.run_id, out / "remote_window.png")
            _picture_of_page(first, run.run_id, out / "remote_web.png")
            with ExitStack() as busy:
                for address in others:
                    busy.enter_context(_at_work(address))
                _picture_of_board(options.addresses, out / "machines.png")
        finally:
            trainer.cancel(run.run_id, grace_s=5.0)
    application.quit()
    return 0


def _train(trainer: TrainerClient) -> RunRecord:
    for seed in (1, 2):
        short = trainer.train("ppo", total_timesteps=20_000, seed=seed, name=f"warm-up {seed}")
        trainer.wait(short.run_id)
    run = trainer.train("ppo", total_timesteps=50_000_000, seed=3, name="Balance the pole")
    deadline = time.monotonic() + _PATIENCE_S
    while not trainer.get(run.run_id).metrics and time.monotonic() < deadline:
        time.sleep(0.5)
    return run


@contextmanager
def _at_work(address: str) -> Iterator[None]:
    """A daemon with more runs than it has room for, until the end of the block."""
    with TrainerClient.connect(address, start=True) as trainer:
        runs = [
            trainer.train("ppo", total_timesteps=50_000_000, seed=seed, name=f"Baseline {seed}")
            for seed in (1, 2, 3)
        ]
        try:
            yield
        finally:
            for run in reversed(runs):
                trainer.cancel(run.run_id, grace_s=1.0)


def _picture_of_window(address: str, run_id: str, path: Path) -> None:
    from gym_gui.app import open_window
    from mosaic.config.paths import Home

    window = open_window(Home.locate(), addresses=[address])
    window.resize(*_SIZE)
    _until(lambda: run_id in window.services.store.runs)
    window.show_layout("watch")
    window.runs_panel.show_run(run_id)
    window.run_panel.open_tab("live")
    _until(lambda: window.run_panel.tab("live").frames_shown > 30)
    _until(lambda: "ms" in window.status.daemon.text())
    _until(lambda: False, _LEARNING_S)
    window.grab().save(str(path))
    window.close()


def _until(condition: Callable[[], object], patience_s: float = _PATIENCE_S) -> None:
    """Let the window live until something is true."""
    from qtpy.QtWidgets import QApplication

    deadline = time.monotonic() + patience_s
    while not condition() and time.monotonic() < deadline:
        QApplication.processEvents()
        time.sleep(0.01)


def _picture_of_board(addresses: Sequence[str], path: Path) -> None:
    """A daemon here and those elsewhere, in one window."""
    from gym_gui.app import open_window
    from mosaic.config.paths import Home

    home = Home.locate()
    with TrainerClient.connect(home, start=True) as here:
        runs = [
            here.train("ppo", total_timesteps=50_000_000, seed=seed, name=f"Try {seed}")
            for seed in (1, 2, 3, 4)
        ]
        window = open_window(home, addresses=["local", *addresses])
        window.resize(*_SIZE)
        window.show_layout("machines")
        try:
            for card in window.machines.cards.values():
                _until(lambda card=card: "running, " in card.words)
            _until(lambda: here.get(runs[0].run_id).metrics)
            _until(lambda: False, 8.0)
            window.grab().save(str(path))
        finally:
            window.close()
            for run in runs:
                here.cancel(run.run_id, grace_s=1.0)
            here.shutdown("stop")


def _picture_of_page(address: str, run_id: str, path: Path) -> None:
    from playwright.sync_api import sync_playwright

    pages = subprocess.Popen(
        [_MOSAIC, "--connect", address, "web", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert pages.stdout is not None
        entrance = pages.stdout.readline().removeprefix("open: ").strip()
        with sync_playwright() as playwright:
            arguments = ["--disable-gpu", "--disable-background-networking"]
            arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=arguments)
            page = browser.new_page(viewport={"width": 1200, "height": 860})
            page.goto(entrance)
            page.wait_for_selector("#runs")
            page.goto(f"{entrance.partition('/enter')[0]}/runs/{run_id}")
            page.wait_for_selector(".chart canvas")
            deadline = time.monotonic() + _PATIENCE_S
            while not page.evaluate("document.querySelector('#frames').naturalWidth > 0"):
                if time.monotonic() > deadline:
                    raise TimeoutError("no frames came")
                time.sleep(0.5)
            time.sleep(5)
            page.screenshot(path=path)
            browser.close()
    finally:
        pages.terminate()
        pages.wait()


if __name__ == "__main__":
    sys.exit(main())
