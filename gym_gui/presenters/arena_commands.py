"""What the arena's page asks of the rest of the window: replays, and a game for a person."""

from collections.abc import Callable

from gym_gui.panels.arena_panel import ArenaPanel
from gym_gui.panels.play_panel import PlayPanel
from gym_gui.panels.run_panel import RunPanel
from gym_gui.panels.runs_panel import RunsPanel
from gym_gui.presenters.tab_registry import EVALUATION, REPLAY
from gym_gui.tabs.evaluation_tab import EvaluationTab
from gym_gui.tabs.replay_tab import ReplayTab
from mosaic.arena.match import Match
from mosaic.arena.table import PlayedEpisode


class ArenaCommands:
    """Opens the episodes of the arena, and begins games with its seeds.

    Args:
        arena: The page.
        table: The run table, which selects the run of an episode.
        runs: The tabs of a run, which show the episode.
        play: The game.
        show_layout: Brings another part of the window into sight.
    """

    def __init__(
        self,
        arena: ArenaPanel,
        table: RunsPanel,
        runs: RunPanel,
        play: PlayPanel,
        show_layout: Callable[[str], None],
    ) -> None:
        self._table = table
        self._runs = runs
        self._play = play
        self._show_layout = show_layout
        arena.replay_wanted.connect(self.replay)
        arena.play_wanted.connect(self.play)

    def replay(self, episode: PlayedEpisode) -> None:
        """Show an episode again: recorded steps, or the film of an evaluation."""
        self._show_layout("watch")
        self._table.show_run(episode.run_id)
        name = REPLAY if episode.number is not None else EVALUATION
        self._runs.open_tab(name)
        tab = self._runs.tab(name)
        if isinstance(tab, ReplayTab) and episode.number is not None:
            tab.open_episode(episode.number)
        elif isinstance(tab, EvaluationTab) and episode.seed is not None:
            tab.open_seed(episode.seed)

    def play(self, match: Match, against: str) -> None:
        """Begin a game; each of its next episodes has the next seed, at a table every second."""
        self._show_layout("play")
        self._play.seed.set_value(match.seed)
        if against:
            self._play.begin_table(match, against)
            return
        self._play.env.set_text(match.env_id)
        self._play.begin()
