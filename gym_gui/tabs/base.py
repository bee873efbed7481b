"""What a tab of a run is."""

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.services import Services
from gym_gui.widgets.layouts import as_panel
from mosaic.records import RunRecord


class RunTab(QWidget):
    """Shows one side of one run; works only while it is looked at.

    A tab gets a run, then learns when it comes to the front and when it leaves it. It may hold
    streams and processes only between `activate` and `deactivate`.

    Signals:
        action_wanted: Something to do that the window knows, by the action's id.
    """

    title = ""
    icon = ""
    action_wanted = Signal(str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self.services = services
        self.run: RunRecord | None = None
        self.active = False

    @property
    def run_id(self) -> str:
        """The id of the run shown, or nothing."""
        return self.run.run_id if self.run else ""

    @property
    def link(self) -> DaemonLink:
        """The daemon that has the run."""
        return self.services.link_of(self.run_id)

    def set_lane(self, analytics: bool) -> None:
        """Whether the run lives in the analytics lane alone."""

    def set_run(self, run: RunRecord | None) -> None:
        """Show a run: another one, or the same with news."""
        other = (run.run_id if run else "") != self.run_id
        was_active = self.active
        # While it still knows the previous run, so that it closes that run's streams.
        if other and was_active:
            self.deactivate()
        self.run = run
        if other:
            self.on_other_run()
        if other and was_active:
            self.activate()
        elif self.active:
            self.on_news()

    def activate(self) -> None:
        """The tab came to the front."""
        if self.active:
            return
        self.active = True
        if self.run is not None:
            self.on_open()
            self.on_news()

    def deactivate(self) -> None:
        """The tab left the front, or the window closes."""
        if self.active:
            self.active = False
            self.on_close()

    def on_other_run(self) -> None:
        """Forget what belonged to the run before."""

    def on_open(self) -> None:
        """Start what is needed to show the run."""

    def on_news(self) -> None:
        """The run changed."""

    def on_close(self) -> None:
        """Stop what `on_open` started."""

    def shut(self) -> None:
        """The window closes: stop what continues while the tab is hidden."""
