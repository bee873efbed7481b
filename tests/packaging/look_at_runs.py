"""`python look_at_runs.py RUN...`: the window of an installed MOSAIC, without any test tools.

`test_wheels.py` starts it with the interpreter of a new environment. It opens the form of the
worker that made the runs, looks at each of them, and prints what it saw as one JSON object.
"""

import json
import os
import sys
import time
from collections.abc import Callable

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# The browser needs a display of its own; no page of it is looked at.
os.environ["MOSAIC_NO_WEBENGINE"] = "1"

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from gym_gui.app import make_services
from gym_gui.main_window import MainWindow
from mosaic.config.paths import Home

# Several times what a busy machine needs; only a window that hangs waits so long.
_PATIENCE_S = 150.0


def wait_for(application: QApplication, happened: Callable[[], object], what: str) -> None:
    """Let the window live until something is true."""
    deadline = time.monotonic() + _PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit(f"never happened: {what}")
        application.processEvents()
        time.sleep(0.005)


def main() -> None:
    """Look at everything and say what was seen."""
    application = QApplication(["window"])
    services = make_services(Home.locate())
    window = MainWindow(services)
    window.show()
    services.daemons.open()
    wait_for(application, lambda: services.store.complete and window.launch.actors, "connected")
    seen: dict[str, object] = {}
    for run_id in sys.argv[1:]:
        wait_for(application, lambda run_id=run_id: services.store.get(run_id), "the run is listed")
        run = services.store.runs[run_id]
        window.show_layout("watch")
        window.runs_panel.show_run(run_id)
        wait_for(application, lambda run=run: services.selection.current == run.run_id, "selected")
        window.run_panel.open_tab("overview")
        tiles = window.run_panel.tab("overview").tiles
        wait_for(application, lambda tiles=tiles: tiles["Return"].number != "—", "its return")
        seen[run_id] = [run.mode, run.outcome]
    form = window.launch.show_form("train", run.worker)
    wait_for(application, lambda: form.described and form.env.names, "the form is ready")
    editor = form.parameters.editor("epsilon")
    editor.editor.setText("1.5")
    seen["form"] = [form.described, list(form.env.names), editor.problem]
    print(json.dumps(seen), flush=True)
    # As the program itself ends: threads of the window may still speak to Qt when it is closed.
    QTimer.singleShot(0, window.close)
    application.exec()


if __name__ == "__main__":
    main()
