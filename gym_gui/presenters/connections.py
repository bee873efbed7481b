"""What the window does when a daemon is connected, lost, or chosen for new runs."""

from collections.abc import Callable, Sequence

from gym_gui.background.daemon_link import CONNECTED, LOST, SLOW, DaemonLink
from gym_gui.models.actors import Actor, roster
from gym_gui.panels.launch_panel import LaunchPanel
from gym_gui.panels.run_panel import RunPanel
from gym_gui.presenters.tab_registry import PresenterRegistry
from gym_gui.services import Services
from gym_gui.widgets.messages import Banner
from mosaic.client import TrainerClient
from mosaic.records.daemon import WorkerInfo


class Connections:
    """Keeps the title, the banner and the list of actors as the daemons are.

    Args:
        services: The window's shared parts.
        presenters: Decide which tabs a run gets.
        launch: Offers the actors of the daemon in front.
        run_panel: Follows a run, over a connection that may be made again.
        banner: Says which daemon does not answer.
        changed: Called after each change, with the window's title.
    """

    def __init__(
        self,
        services: Services,
        presenters: PresenterRegistry,
        launch: LaunchPanel,
        run_panel: RunPanel,
        banner: Banner,
        changed: Callable[[str], None],
    ) -> None:
        self._services = services
        self._presenters = presenters
        self._launch = launch
        self._run_panel = run_panel
        self._banner = banner
        self._changed = changed
        self._rosters: dict[DaemonLink, list[Actor]] = {}
        daemons = services.daemons
        daemons.state_changed.connect(self._on_state)
        daemons.listed.connect(self._on_list)
        daemons.front_changed.connect(self._on_list)
        launch.actors_changed.connect(lambda _actors: self._choose_tabs())
        self._on_list()

    @property
    def title(self) -> str:
        """The window's title: whose runs are shown, unless they are simply this home's."""
        links = self._services.daemons.links
        named = len(links) > 1 or not links[0].local
        return f"MOSAIC on {', '.join(link.name for link in links)}" if named else "MOSAIC"

    def _on_list(self) -> None:
        """The list of daemons is another, or another one is in front."""
        daemons = self._services.daemons
        self._rosters = {
            link: actors for link, actors in self._rosters.items() if link in daemons.links
        }
        if daemons.front in self._rosters:
            self._launch.set_actors(self._rosters[daemons.front])
        # Runs of a daemon that was left are not gone, so nothing is to be said about them.
        chosen = self._services.selection
        if any(self._services.store.get(run_id) is None for run_id in chosen.ids):
            chosen.select(tuple(run.run_id for run in self._services.selected_runs()))
        self._show_banner()
        self._changed(self.title)

    def _on_state(self, link: DaemonLink) -> None:
        self._show_banner()
        if link.state.name == CONNECTED:
            link.ask(
                TrainerClient.workers,
                lambda workers: self._on_workers(link, workers),
                lambda error: self._services.notices.error("Workers not listed", error),
            )
            # Streams of the old connection are dead; what is on screen is asked for again.
            self._services.feeds.reconnect(link)
            if self._services.link_of(self._services.selection.current) is link:
                self._run_panel.reopen()
        self._changed(self.title)

    def _on_workers(self, link: DaemonLink, workers: Sequence[WorkerInfo]) -> None:
        if link not in self._services.daemons.links:
            return
        self._rosters[link] = roster(workers)
        if link is self._services.link:
            self._launch.set_actors(self._rosters[link])
        else:
            self._choose_tabs()

    def _choose_tabs(self) -> None:
        """Another daemon may have workers that the one in front lacks; its runs get tabs too."""
        others = [actor for actors in self._rosters.values() for actor in actors]
        self._presenters.set_actors([*others, *self._launch.actors])
        self._run_panel.refresh()

    def _show_banner(self) -> None:
        """Say which daemon does not answer; the one that new runs go to before the others."""
        daemons = self._services.daemons
        asked = sorted(daemons.links, key=lambda link: link is not daemons.front)
        link = next((one for one in asked if one.state.name in (LOST, SLOW)), None)
        if link is None:
            self._banner.say("info", "")
        elif link.state.name == SLOW:
            who = f"{link.name}: " if daemons.several else ""
            self._banner.say("warning", f"{who}{link.state.text}. Nothing you typed is lost.")
        else:
            named = daemons.several or not link.local
            what = f"Not connected to {link.name}" if named else "No trainer daemon"
            others = " The other daemons work as before." if daemons.several else ""
            self._banner.say(
                "danger",
                f"{what}: {link.state.text}. Running runs continue without it; "
                f"this window reconnects by itself.{others}",
                "Start the daemon" if link.local else "Connect now",
                link.start_daemon,
            )
