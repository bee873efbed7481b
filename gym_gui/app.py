"""Starting the workbench."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

# With PySide6 the process has been seen to die in the embedded browser.
os.environ["QT_API"] = "pyqt6"
# The window starts helpers; gRPC's fork handlers would disturb its own threads for nothing.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from qtpy.QtCore import QCoreApplication, Qt, QTimer
from qtpy.QtWidgets import QApplication

from gym_gui.background.daemon_link import DaemonLink
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
from mosaic.connect.elsewhere import Elsewhere, find_way
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
    home: Home, start_daemon: bool = True, elsewhere: Elsewhere | None = None
) -> Services:
    """Everything the window leans on."""
    settings, notice = load_window_settings(home)
    link = DaemonLink(home, start_daemon, elsewhere)
    streams = StreamKeeper()
    notices = Notices()
    store = RunStore()
    hooks = WorkerHooks(link.calls)
    services = Services(
        link=link,
        store=store,
        themes=ThemeManager(),
        notices=notices,
        settings=settings,
        selection=Selection(),
        streams=streams,
        feeds=FeedPool(link, streams, store),
        clock=ChartClock(settings.chart_hz),
        hooks=hooks,
        cache=RunCache(),
        run_settings=RunSettings(link, hooks),
        phases=RunPhases(link, store),
    )
    if notice:
        notices.problem(notice)
    return services


def open_window(
    home: Home, start_daemon: bool = True, elsewhere: Elsewhere | None = None
) -> MainWindow:
    """A window on the daemon of a home, which is started when none runs, or on an invited one."""
    window = MainWindow(make_services(home, start_daemon, elsewhere))
    window.show()
    # After the window is there: connecting may start a daemon, and people should see that.
    window.services.link.open()
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
        help="use a daemon whose home this user or this machine cannot read: "
        "ssh://USER@HOST[:PORT][/HOME], or an invitation (made by: mosaic invite FILE)",
    )
    options = parser.parse_args(arguments)
    try:
        elsewhere = find_way(options.connect) if options.connect else None
    except (SecretError, InvalidArgumentError) as error:
        parser.error(str(error))
    application = make_application()
    window = open_window(Home.locate(options.home), not options.no_daemon, elsewhere)
    signal.signal(signal.SIGINT, lambda *_: window.close())
    signal.signal(signal.SIGTERM, lambda *_: window.close())
    # Python sees a signal only when it runs; Qt's loop alone would never let it.
    pulse = QTimer()
    pulse.timeout.connect(lambda: None)
    pulse.start(_SIGNAL_CHECK_MS)
    return int(application.exec())


if __name__ == "__main__":
    sys.exit(main())
