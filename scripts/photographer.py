"""The camera for pictures of the workbench, and the stage they are taken on."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QDialog, QWidget

from gym_gui.app import make_application, open_window
from gym_gui.main_window import MainWindow
from gym_gui.widgets.chart_grid import ChartGrid
from gym_gui.widgets.command_palette import CommandPalette
from mosaic.client import TrainerClient
from mosaic.config.paths import Home, project_root
from mosaic.errors import MosaicError
from mosaic.records import RunRecord

_PATIENCE_S = 240.0
_STAGE_VARIABLE = "MOSAIC_PICTURE_STAGE"


def on_stage(program: str) -> int | None:
    """Run `program` again as a user would: from ~/mosaic, in a home directory of its own.

    Paths in the pictures then begin with ~/mosaic, whichever machine they are taken on.

    Returns:
        The exit status of that run, or None when this is it.
    """
    if os.environ.get(_STAGE_VARIABLE):
        return None
    user = Path(tempfile.mkdtemp(prefix="mosaic-pictures-")) / "user"
    try:
        checkout = user / "mosaic"
        checkout.mkdir(parents=True)
        (checkout / ".venv").symlink_to(sys.prefix, target_is_directory=True)
        for name in ("mosaic", "gym_gui", "workers"):
            (checkout / name).symlink_to(project_root() / name, target_is_directory=True)
        packages = [checkout, *sorted((checkout / "workers").iterdir())]
        environment = {
            **os.environ,
            "HOME": str(user),
            "MOSAIC_HOME": str(checkout / "var"),
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            _STAGE_VARIABLE: str(checkout),
        }
        python = checkout / ".venv" / "bin" / Path(sys.executable).name
        arguments = [str(python), os.path.abspath(program), *sys.argv[1:]]
        done = subprocess.run(arguments, env=environment, cwd=checkout, check=False)
        return done.returncode
    finally:
        shutil.rmtree(user.parent, ignore_errors=True)


def take_pictures(
    program: str,
    about: str,
    act: Callable[["Photographer"], None],
    *,
    publishes: bool = False,
) -> int:
    """Open a window on an empty home, let a script act in it, and close everything after it.

    Args:
        program: The script's file, which is run again on its stage.
        about: What its help says.
        act: Takes the pictures.
        publishes: Copy the pictures into the pages without being told to.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=project_root() / "build" / "screenshots")
    parser.add_argument("--size", default="1500x920", help="Size of the window.")
    parser.add_argument("--font", type=float, help="Size of the text in points.")
    parser.add_argument(
        "--publish", action="store_true", default=publishes, help="Copy them into the guide."
    )
    given = parser.parse_args()
    status = on_stage(program)
    if status is not None:
        return status
    application = make_application()
    home = Home.locate()
    window = open_window(home)
    window.resize(*map(int, given.size.split("x")))
    camera = Photographer(window, application, given.out)
    try:
        camera.theme("light")
        if given.font:
            settings = replace(window.services.settings, font_points=given.font)
            window.change_settings(settings)
        act(camera)
    finally:
        end_daemon(home)
        window.close()
        camera.spin(1)
    if given.publish:
        publish(given.out)
    return 0


def checkout_on_stage() -> Path:
    """What ~/mosaic is on the stage."""
    return Path(os.environ[_STAGE_VARIABLE])


def end_daemon(home: Home) -> None:
    """Stop the daemon of a home, if it still runs."""
    try:
        with TrainerClient.connect(home) as client:
            client.shutdown("stop")
    except MosaicError:
        pass  # it was stopped for the last picture


def publish(taken: Path) -> None:
    """Copy the pictures that a page shows; the others are for people who change the window."""
    for picture in sorted((project_root() / "docs" / "screenshots").glob("*.png")):
        # Pages show pictures of other programs too, which are not taken here.
        if (taken / picture.name).exists():
            shutil.copyfile(taken / picture.name, picture)


class Photographer:
    """Drives one window and takes pictures of it."""

    def __init__(self, window: MainWindow, application: Any, folder: Path) -> None:
        self.window = window
        self.services = window.services
        self._application = application
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def spin(self, seconds: float) -> None:
        """Let the window live."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._application.processEvents()
            time.sleep(0.005)

    def until(
        self, condition: Callable[[], Any], what: str, patience_s: float = _PATIENCE_S
    ) -> Any:
        """Let the window live until something is true."""
        deadline = time.monotonic() + patience_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never happened: {what}")
            self._application.processEvents()
            time.sleep(0.005)
        return value

    def shoot(self, name: str, target: QWidget | None = None, wait_s: float = 0.5) -> None:
        """Write one picture."""
        self.spin(wait_s)
        self.window.toast.hide()
        (target or self.window).grab().save(str(self.folder / f"{name}.png"))
        print(name, flush=True)

    def shoot_dialog(self, name: str) -> None:
        """Write a picture of the dialog that is open, and close it."""
        self.until(self._dialogs, "a dialog")
        self.spin(0.5)
        dialog = self._dialogs()[0]
        dialog.grab().save(str(self.folder / f"{name}.png"))
        print(name, flush=True)
        dialog.close()

    def _dialogs(self) -> list[QDialog]:
        return [one for one in self.window.findChildren(QDialog) if one.isVisible()]

    def leave_palette(self) -> None:
        """Close the command palette."""
        self.window.findChild(CommandPalette).dismiss()

    def theme(self, name: str) -> None:
        """Change between light and dark."""
        self.window.change_settings(replace(self.services.settings, theme=name))
        self.spin(0.3)

    def curves(self, grid: ChartGrid) -> None:
        """Wait until every chart shows its curve."""
        # A change of the selection reaches the charts a moment later.
        self.spin(0.5)
        self.until(lambda: len(grid.cards) > 4 and grid.complete, "every curve")

    # ------------------------------------------------------------ runs

    def submit(self, config: dict[str, Any]) -> str:
        """Send a run and wait until it is listed."""
        sent: list[Any] = []
        self.services.link.ask(lambda client: client.submit(config), sent.append, sent.append)
        self.until(lambda: sent, "an answer")
        if isinstance(sent[0], Exception):
            raise sent[0]
        run_id = str(sent[0].run_id)
        self.until(lambda: run_id in self.services.store.runs, "the run is listed")
        return run_id

    def reach(self, run_id: str, *states: str) -> RunRecord:
        """Wait for a run."""
        store = self.services.store
        self.until(lambda: store.runs[run_id].state in states, f"{run_id} in {states}")
        return store.runs[run_id]

    def show(self, run_id: str, tab: str, layout: str = "watch") -> Any:
        """Bring a tab of a run to the front."""
        self.window.show_layout(layout)
        self.window.runs_panel.show_run(run_id)
        self.until(lambda: self.services.selection.current == run_id, "the run is selected")
        self.spin(0.2)
        self.window.run_panel.open_tab(tab)
        return self.window.run_panel.tab(tab)
