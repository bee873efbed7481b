"""Starting the workbench."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

# With PySide6 the process has been seen to die in the embedded browser.
os.environ["QT_API"] = "pyqt6"

from qtpy.QtCore import QCoreApplication, Qt, QTimer
from qtpy.QtWidgets import QApplication

from gym_gui.background.calls import Calls
from gym_gui.background.daemons import LOCAL, Daemons, make_link, remembered
from gym_gui.background.metric_feed import FeedPool
from gym_gui.background.run_cache import RunCache
from gym_gui.background.run_phases import RunPhases
from gym_gui.background.run_settings import RunSettings
from gym_gui.background.streams import StreamKeeper
from gym_gui.background.worker_hooks import WorkerHooks
from gym_gui.main_window import MainWindow
from gym_gui.models.notices import Notices
from gym_gui.models.run_store import RunStore
from gym_gui.models.window_settings import load_window_settings
from gym_gui.resources.theming import ThemeManager
from gym_gui.services import Selection, Services
from gym_gui.widgets.chart_clock import ChartClock
from mosaic.config.paths import Home
from mosaic.errors import InvalidArgumentError, SecretError

_SIGNAL_CHECK_MS = 200


def prepare() -> None:
    """What must be set before the application object is made, for web views that come later."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Chromium refuses to run as root with its sandbox on.
        os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--no-sandbox")
    QCoreApplication.setAttribute(Qt.ApplicationAttribute.AA_ShareOpenGLContexts)


def make_application() -> QApplication:
    """The application object."""
    prepare()
    application = QApplication(["mosaic"])
    application.setApplicationName("MOSAIC")
    application.setDesktopFileName("mosaic")
    return application


def make_services(
    home: Home, start_daemon: bool = True, addresses: Sequence[str] = (LOCAL,)
) -> Services:
    """Everything the window leans on.

    Args:
        home: The window's own home.
        start_daemon: Start daemons where none run.
        addresses: The daemons to connect to; new runs go to the first.

    Raises:
        InvalidArgumentError: The first address is no proper one.
        SecretError: It names a file that is no invitation, or that others may read.
    """
    settings, notice = load_window_settings(home)
    streams = StreamKeeper()
    notices = Notices()
    store = RunStore()
    first, *others = dict.fromkeys(addresses)
    daemons = Daemons(store, make_link(home, first, start=start_daemon))
    for address in others:
        try:
            daemons.add(make_link(home, address, start=start_daemon))
        except (InvalidArgumentError, SecretError) as error:
            # An invitation that was deleted, for example: the others are still of use.
            notices.error(f"Not connected to {address}", error)
    calls = Calls(daemons)
    hooks = WorkerHooks(calls)
    services = Services(
        daemons=daemons,
        calls=calls,
        store=store,
        themes=ThemeManager(),
        notices=notices,
        settings=settings,
        selection=Selection(),
        streams=streams,
        feeds=FeedPool(daemons.of, streams, store),
        clock=ChartClock(settings.chart_hz),
        hooks=hooks,
        cache=RunCache(),
        run_settings=RunSettings(daemons.of, hooks),
        phases=RunPhases(daemons.of, store),
    )
    if notice:
        notices.problem(notice)
    return services


def open_window(
    home: Home, start_daemon: bool = True, addresses: Sequence[str] = (LOCAL,)
) -> MainWindow:
    """A window on the daemons of these addresses, which are started where none run."""
    window = MainWindow(make_services(home, start_daemon, addresses))
    window.show()
    # After the window is there: connecting may start a daemon, and people should see that.
    window.services.daemons.open()
    return window


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m gym_gui`: open the workbench; returns the exit status."""
    parser = argparse.ArgumentParser(prog="mosaic gui", description="The MOSAIC workbench.")
    parser.add_argument(
        "--home", help="home to work on; default: MOSAIC_HOME, else var/ of the project"
    )
    parser.add_argument(
        "--no-daemon", action="store_true", help="start no daemon when none runs; only look"
    )
    parser.add_argument(
        "--connect",
        metavar="WHERE",
        action="append",
        default=[],
        help="use a daemon whose home this user or this machine cannot read: "
        "ssh://USER@HOST[:PORT][/HOME], or an invitation (made by: mosaic invite FILE); "
        "repeat it for several side by side, with `local` for the one of this home",
    )
    options = parser.parse_args(arguments)
    home = Home.locate(options.home)
    application = make_application()
    try:
        # Addresses on the command line are the whole list; else it is this home and what was added.
        addresses = options.connect or [LOCAL, *remembered(home)]
        window = open_window(home, not options.no_daemon, addresses)
    except (SecretError, InvalidArgumentError) as error:
        parser.error(str(error))
    signal.signal(signal.SIGINT, lambda *_: window.close())
    signal.signal(signal.SIGTERM, lambda *_: window.close())
    # Python sees a signal only when it runs; Qt's loop alone would never let it.
    pulse = QTimer()
    pulse.timeout.connect(lambda: None)
    pulse.start(_SIGNAL_CHECK_MS)
    return int(application.exec())


if __name__ == "__main__":
    sys.exit(main())
