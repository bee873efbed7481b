"""Joining a policy at play: a session is started, and shown where it can be taken over."""

from collections.abc import Callable

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.panels.run_panel import RunPanel
from gym_gui.presenters.tab_registry import TELEMETRY
from gym_gui.services import Services
from mosaic.presenting.run_status import can_be_joined, title_of
from mosaic.records import RunRecord


class Joining:
    """Starts sessions with the policy of a run.

    Args:
        services: The window's shared parts.
        panel: Shows the session.
        show_layout: Switches the window to a named layout.
    """

    def __init__(
        self, services: Services, panel: RunPanel, show_layout: Callable[[str], None]
    ) -> None:
        self._services = services
        self._panel = panel
        self._show_layout = show_layout

    def actions(self) -> tuple[Action, ...]:
        """One: watch a policy and take over."""
        return (
            Action(
                id="run.take_over",
                title="Watch and take over",
                do=self.join,
                menu="Run",
                shortcut="Ctrl+Alt+T",
                icon="person",
                enabled=rules.one_run(can_be_joined),
                separated=True,
            ),
        )

    def join(self) -> None:
        """Start a session with the newest policy of the run that is shown."""
        run = self._services.current_run()
        if run is None or not can_be_joined(run):
            return
        services = self._services
        services.notices.info(f"Starting a session with the policy of {title_of(run)} …")
        link = services.link_of(run.run_id)
        link.ask(
            lambda client: client.play_with(run.run_id),
            lambda session: self._started(session, link.name),
            lambda error: services.notices.error("No session", error),
        )

    def _started(self, session: RunRecord, daemon: str) -> None:
        self._services.store.put(session, daemon)
        self._show_layout("watch")
        self._panel.open_tab(TELEMETRY)
        self._services.selection.select((session.run_id,))
