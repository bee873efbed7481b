"""The arena dock: agents of all kinds on the same seeds, in a table that fills as they play."""

from collections.abc import Sequence
from dataclasses import replace

from qtpy.QtCore import QTimer, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from gym_gui.background import arena_reading
from gym_gui.background.arena_reading import Standing
from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.forms.base import NumberLine, form_layout
from gym_gui.models import environments as env_lists
from gym_gui.models.actors import Actor
from gym_gui.models.arena_draft import ArenaDraft, read_draft
from gym_gui.services import Services
from gym_gui.widgets.agent_list import AgentList
from gym_gui.widgets.controls import button, plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import as_panel, column, row, scrolled
from gym_gui.widgets.messages import Banner, EmptyState
from gym_gui.widgets.pareto_chart import ParetoChart
from gym_gui.widgets.picker import Picker
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.seed_grid import SeedGrid
from gym_gui.widgets.wrapping import FoldingSplitter
from mosaic.arena import words
from mosaic.arena.elo import Teammate
from mosaic.arena.match import HUMAN, Match, check_agents
from mosaic.client import TrainerClient
from mosaic.errors import InvalidArgumentError
from mosaic.presenting.run_status import status_of
from mosaic.records import RunRecord
from mosaic.workers.facts import EnvironmentFacts

# Episodes of several agents end in bursts; the table is read once for all of them.
_COALESCE_MS = 400
_FILE = "arena.json"
_STATE_AT = 2
_NOTHING = (
    "No match yet",
    "Choose an environment and at least two agents. All of them play the same seeds.",
)
_HOW = (
    "Lead: mean difference to the first agent, seed by seed. Success has Wilson's 95 % interval, "
    "return and lead have bootstrap intervals."
)
_RATED = (
    "Every two agents play each seed twice, once in each order of the seats. Ratings have "
    "bootstrap intervals over the games; below is the score of the one who sits first."
)


class ArenaPanel(QWidget):
    """Choose who plays what, and watch the table fill.

    Signals:
        replay_wanted: An episode to be seen again.
        play_wanted: A person wants to play: a `Match` from the first missing seed on, and with
            whom, empty in games for one.
    """

    replay_wanted = Signal(object)
    play_wanted = Signal(object, str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self._environments: dict[str, EnvironmentFacts] = {}
        self._changed: set[str] = set()
        self._reading = False
        self._restored = False
        self.standing: Standing | None = None
        self.banner = Banner()
        self.env = Picker("environment")
        self.agents = AgentList(lambda: services.selection.ids)
        self.seeds = NumberLine("Number of seeds", 20, 1, 100_000)
        self.first = NumberLine("First seed", 1001, 0, 2**31)
        self.longest = NumberLine("Longest episode", None, 1, 10**6, optional=True)
        self.longest.setPlaceholderText("the environment's own limit")
        self.start = button("Start", self.begin, "primary")
        self.stop = button("Stop", self.end, tip="Cancel the runs of this match that still play")
        self.play = button("Play the missing seeds", self._play, tip="Fill the human row")
        self.table = QTableWidget()
        plain_table(self.table)
        self.table.setAccessibleName("Agents compared")
        self.pareto = ParetoChart(services.themes)
        self.grid = SeedGrid(services.themes)
        self.grid.chosen.connect(self.replay_wanted)
        self._title = label("", "section")
        self._how = label(_HOW, "muted", wrap=True)
        self._empty = EmptyState(*_NOTHING)
        split = FoldingSplitter()
        split.addWidget(self._left())
        split.addWidget(self._right())
        split.setStretchFactor(1, 1)
        split.setSizes([320, 760])
        self.setLayout(column(self.banner, split, margin=10, stretch={1: 1}))
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(_COALESCE_MS)
        self._later.timeout.connect(self._read)
        services.store.changed.connect(self._on_store)
        self._show_draft(read_draft(None))
        self._show()

    def _left(self) -> QWidget:
        form = form_layout()
        form.addRow("Environment", self.env)
        for name, line in (
            ("Seeds", self.seeds),
            ("First seed", self.first),
            ("Longest episode", self.longest),
        ):
            form.addRow(name, column(line, line.error, spacing=2))
        inner = QWidget()
        inner.setLayout(
            column(form, label("Agents", "section"), self.agents, 1, margin=4, spacing=10)
        )
        host = QWidget()
        host.setLayout(column(scrolled(inner), row(self.stop, 1, self.start), spacing=8))
        sure(host.layout()).setContentsMargins(0, 0, 10, 0)
        return host

    def _right(self) -> QWidget:
        content = QWidget()
        content.setLayout(
            column(
                row(self._title, 1, self.play),
                self.table,
                self._how,
                self.grid,
                self.pareto,
                1,
                margin=4,
                spacing=10,
            )
        )
        self._area = scrolled(content)
        host = QWidget()
        host.setLayout(column(self._area, self._empty))
        return host

    # ------------------------------------------------------------ what can be chosen

    def set_actors(self, actors: list[Actor]) -> None:
        """The roster is known: ask each worker for its environments."""
        for actor in actors:
            if actor.capabilities and actor.capabilities.environments:
                self._services.hooks.environments(
                    actor.capabilities, self._on_environments, lambda _error: None
                )

    def _on_environments(self, found: list[EnvironmentFacts]) -> None:
        self._environments.update({item["id"]: item for item in found})
        self.env.set_choices(env_lists.by_family(self._environments.values()))

    @property
    def match(self) -> Match:
        """What the form asks for.

        Raises:
            ValueError: A number is wrong.
        """
        return Match(
            self.env.text,
            int(self.first.value() or 0),
            int(self.seeds.value() or 1),
            int(self.longest.value() or 0),
        )

    # ------------------------------------------------------------ a match

    def begin(self) -> None:
        """Let every ticked agent play the seeds."""
        try:
            agents, match = check_agents(self.agents.ticked), self.match
        except (InvalidArgumentError, ValueError) as error:
            self.banner.say("warning", str(error))
            return
        if not match.env_id:
            self.banner.say("warning", "Choose an environment.")
            return
        self.start.setEnabled(False)
        self.banner.say("info", "")

        def begun(standing: Standing) -> None:
            self.start.setEnabled(True)
            self._open(standing)
            self._keep()

        def refused(error: Exception) -> None:
            self.start.setEnabled(True)
            self.banner.say("danger", str(error))

        self._services.link.ask(
            lambda client: arena_reading.begin(client, agents, match), begun, refused
        )

    def end(self) -> None:
        """Cancel what still plays."""
        live = [run.run_id for run in self._runs().values() if run.live]

        def cancel(client: TrainerClient) -> None:
            for run_id in live:
                client.cancel(run_id)

        if live:
            self._services.link_of(live[0]).ask(cancel)

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802
        super().showEvent(event)
        if not self._restored:
            self._restored = True
            self._restore()
        elif self._changed:
            self._later.start()

    def _open(self, standing: Standing) -> None:
        self.standing = standing
        self._changed = set(standing.runs)
        self._show()
        self._read()

    def _runs(self) -> dict[str, RunRecord]:
        """The run of each agent, as far as the window knows it."""
        runs = self.standing.runs if self.standing else {}
        known = {agent: self._services.store.get(run_id) for agent, run_id in runs.items()}
        return {agent: run for agent, run in known.items() if run is not None}

    def _on_store(self, ids: set[str]) -> None:
        if self.standing is None:
            return
        news = {agent for agent, run_id in self.standing.runs.items() if run_id in ids}
        if self._is_human_news(ids):
            news |= {agent for agent, run_id in self.standing.runs.items() if not run_id}
        self._changed |= news
        # What is not looked at is read when it is looked at again.
        if news and self.isVisible() and not self._later.isActive():
            self._later.start()

    def _is_human_news(self, ids: set[str]) -> bool:
        env_id = self.standing.match.env_id if self.standing else ""
        runs = [self._services.store.get(run_id) for run_id in ids]
        return any(
            run and run.env_id == env_id and (run.worker == HUMAN or HUMAN in run.tags)
            for run in runs
        )

    def _read(self) -> None:
        standing = self.standing
        if standing is None or self._reading or not self._changed:
            return
        agents, self._changed = sorted(self._changed), set()
        self._reading = True

        def take(found: Standing) -> None:
            self._reading = False
            if self.standing is standing:
                self.standing = found
                self._show()
            if self._changed:
                self._later.start()

        def failed(error: Exception) -> None:
            self._reading = False
            self.banner.say("warning", f"The episodes could not be read: {error}")

        # All of them play on the daemon that was in front when they began.
        link = self._services.link_of(next(iter(standing.runs.values()), ""))
        link.ask(lambda client: arena_reading.read(client, standing, agents), take, failed)

    # ------------------------------------------------------------ showing

    def _show(self) -> None:
        standing = self.standing
        self._empty.setVisible(standing is None)
        self._area.setVisible(standing is not None)
        live = any(run.live for run in self._runs().values())
        self.stop.setEnabled(live)
        if standing is None:
            return
        match = standing.match
        self._title.setText(f"{match.env_id}, seeds {match.seed} to {match.seeds[-1]}")
        self.play.setVisible(arena_reading.missing(standing) is not None)
        self._how.setText(_RATED if standing.at_tables else _HOW)
        if standing.at_tables:
            self._fill_ratings(standing)
        else:
            self._fill_rows(standing)
        self.grid.show_episodes(match, standing.played)
        self.pareto.show_rows(standing.rows)
        self.pareto.setVisible(not standing.at_tables)

    def _fill_rows(self, standing: Standing) -> None:
        runs = self._runs()
        rows, tips = [], []
        for one in standing.rows:
            texts = list(words.cells(one))
            texts[1] = f"{one.episodes} of {standing.match.episodes}"
            run = runs.get(one.agent)
            texts.insert(_STATE_AT, status_of(run).label if run else "")
            rows.append(texts)
            tips.append((run.reason if run else "") or "")
        names = [*words.COLUMNS[:_STATE_AT], "state", *words.COLUMNS[_STATE_AT:]]
        self._fill_table(names, rows, tips)

    def _fill_ratings(self, standing: Standing) -> None:
        together = any(isinstance(one, Teammate) for one in standing.rated)
        names = words.TEAM_COLUMNS if together else words.RATING_COLUMNS
        self._fill_table(names, [words.standing(one) for one in standing.rated])
        lost = [
            f"{pair}: {run.reason}"
            for pair, run in self._runs().items()
            if run.ended and run.reason and not run.completed
        ]
        if lost:
            self.banner.say("warning", "\n".join(lost))

    def _fill_table(
        self, names: Sequence[str], rows: Sequence[Sequence[str]], tips: Sequence[str] = ()
    ) -> None:
        self.table.setColumnCount(len(names))
        self.table.setHorizontalHeaderLabels(names)
        self.table.setRowCount(len(rows))
        for place, texts in enumerate(rows):
            for at, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setToolTip((tips[place] if tips else "") or text)
                self.table.setItem(place, at, item)
        header = sure(self.table.horizontalHeader())
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        heights = sum(self.table.rowHeight(place) for place in range(len(rows)))
        self.table.setFixedHeight(heights + header.sizeHint().height() + 24)

    def _play(self) -> None:
        if self.standing is None or (found := arena_reading.missing(self.standing)) is None:
            return
        against, seed = found
        match = self.standing.match
        left = replace(match, seed=seed, episodes=match.seeds[-1] - seed + 1)
        self.play_wanted.emit(left, against)

    # ------------------------------------------------------------ kept between two openings

    def _show_draft(self, draft: ArenaDraft) -> None:
        match = draft.match
        self.env.set_text(match.env_id)
        self.first.set_value(match.seed)
        self.seeds.set_value(match.episodes)
        self.longest.set_value(match.max_steps or None)
        self.agents.set_agents(draft.agents)

    def _restore(self) -> None:
        path = window_folder(self._services.link.home) / _FILE

        def take(document: object) -> None:
            draft = read_draft(document)
            # A match that was begun meanwhile is newer than what was stored.
            if self.standing is None and document is not None:
                self._show_draft(draft)
                if draft.played is not None and draft.runs:
                    self._open(Standing(draft.played, draft.runs))

        self._services.calls.run(lambda: read_json(path), take, lambda _error: None)

    def _keep(self) -> None:
        if self.standing is None:
            return
        draft = ArenaDraft(self.match, self.agents.agents, self.standing.runs, self.standing.match)
        path = window_folder(self._services.link.home) / _FILE
        self._services.calls.run(lambda: write_json(path, draft.to_json()))
