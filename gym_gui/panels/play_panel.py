"""The play dock: any environment from the keyboard, recorded for replay."""

from collections.abc import Callable, Mapping

from qtpy.QtGui import QImage
from qtpy.QtWidgets import QComboBox, QGridLayout, QWidget

from gym_gui.background.calls import Call
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.env_probe import EnvironmentOptions, probe
from gym_gui.background.play_link import PlayLink
from gym_gui.forms.base import NumberLine, form_layout
from gym_gui.forms.parameters import ParameterList
from gym_gui.models import environments as env_lists
from gym_gui.models.actors import HUMAN, Actor
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.game_view import GameView
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import as_panel, clear, column, framed, row, scrolled
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.picker import Picker
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import FoldingSplitter
from mosaic.arena.match import Match
from mosaic.client import TrainerClient
from mosaic.client.play import Greeting, Scene
from mosaic.client.tables import invite
from mosaic.config import build
from mosaic.records import RunRecord
from mosaic.system.stoppable import Stoppable
from mosaic.workers.facts import EnvironmentFacts

# What the menu says, and how fast time runs then.
_PACES = (("normal", 1.0), ("half speed", 0.5), ("quarter speed", 0.25), ("step by step", 0.0))
_SHOWN_LATER = "Shown when the game starts."
_PAUSED = "Paused. Click the game, or press Return in it, to play on."
_START = "Press Start to play. Every step is recorded; find it again in the run's Replay tab."


class PlayPanel(QWidget):
    """Choose an environment, take the keys, play."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self._link: PlayLink | None = None
        self._probing: Call | None = None
        self._turns = False
        self._scene: Scene | None = None
        self.run_id = ""
        self.banner = Banner()
        self.env = Picker("environment")
        self.seed = NumberLine("Seed", 1, 0, 2**32 - 1)
        self.fps = NumberLine("Frames per second", None, 1, 120, optional=True)
        self.pace = QComboBox()
        self.pace.setAccessibleName("Pace")
        self.pace.setToolTip("How fast time runs; step by step, each key is one step")
        for words, pace in _PACES:
            self.pace.addItem(words, pace)
        self.options = ParameterList()
        self.options.advanced.setChecked(True)
        self.options.advanced.hide()
        self.game = GameView(services.themes)
        self.game.view.clear(_START)
        self._keys = QGridLayout()
        self._keys.setHorizontalSpacing(16)
        self._score = label("", "section")
        self.start = button("Start", self.begin, "primary")
        self.again = button("New episode", self._reset)
        self.stop = button("Stop", self.end)
        split = FoldingSplitter()
        split.addWidget(self._left())
        split.addWidget(self._right())
        split.setStretchFactor(1, 1)
        split.setSizes([350, 700])
        self.setLayout(column(self.banner, split, margin=10, stretch={1: 1}))
        self._show_keys({})
        self._enable(False)
        self.env.picked.connect(self._on_env)
        self.game.held.connect(self._on_held)
        self.game.captured_changed.connect(self._on_captured)
        self.pace.currentIndexChanged.connect(lambda _place: self._send_pace())
        services.store.changed.connect(self._on_runs)

    def _left(self) -> QWidget:
        form = form_layout()
        form.addRow("Environment", self.env)
        form.addRow("Seed", column(self.seed, self.seed.error, spacing=2))
        form.addRow("Frames per second", column(self.fps, self.fps.error, spacing=2))
        form.addRow("Pace", self.pace)
        inner = QWidget()
        keys = framed(column(label("Keys", "section"), self._keys, margin=10), "raised")
        inner.setLayout(
            column(
                form,
                keys,
                label("Game configuration", "section"),
                self.options,
                1,
                margin=4,
                spacing=12,
            )
        )
        host = QWidget()
        host.setLayout(
            column(scrolled(inner), row(self.stop, self.again, 1, self.start), spacing=8)
        )
        sure(host.layout()).setContentsMargins(0, 0, 10, 0)
        return host

    def _right(self) -> QWidget:
        host = QWidget()
        host.setLayout(column(self.game, self._score, spacing=6, stretch={0: 1}))
        return host

    # ------------------------------------------------------------ what can be played

    def set_actors(self, actors: list[Actor]) -> None:
        """The roster is known: find the player and the environments."""
        player = next((one for one in actors if one.worker_type == HUMAN), None)
        if player is None or not player.available:
            reason = player.problem if player else "no worker plays by hand"
            self.banner.say("warning", f"Playing is not possible here: {reason}")
        self.start.setEnabled(bool(player and player.available) and not self.playing)
        for actor in actors:
            if actor.capabilities and actor.capabilities.environments:
                self._services.hooks.environments(
                    actor.capabilities, self._on_environments, lambda _error: None
                )

    def _on_environments(self, found: list[EnvironmentFacts]) -> None:
        known = {item["id"]: item for item in found if _playable(item)}
        # Every worker answers with a list of its own, in any order; the longest one stays.
        if len(known) > len(self.env.names):
            self.env.set_choices(env_lists.by_family(known.values()))
            if not self.env.text:
                self.env.set_text("CartPole-v1")

    def _on_env(self, env_id: str) -> None:
        if self.playing:
            return
        # Those of the game before say nothing about this one.
        self._show_keys({})

        def show(found: EnvironmentOptions) -> None:
            if self.env.text == env_id:
                self.options.show_algorithm(found, ())
                self.fps.setPlaceholderText(str(found["fps"]))
                self.banner.say("info", "")

        # Typing a long name passes by shorter ones, whose options are of no use.
        if self._probing is not None:
            self._probing.cancel()
        program = Stoppable()
        self._probing = self._services.calls.run(
            lambda: probe(env_id, program),
            show,
            lambda error: self.banner.say("warning", str(error)),
            program.stop,
        )

    def _show_keys(self, keys: Mapping[str, str]) -> None:
        clear(self._keys)
        if not keys:
            self._keys.addWidget(label(_SHOWN_LATER, "muted"), 0, 0)
        # Digits stand for every action; they are shown only where nothing better does.
        shown = [key for key in keys if not key.isdigit()] or list(keys)
        for place, key in enumerate(shown[:20]):
            self._keys.addWidget(label(key.capitalize(), "section"), place, 0)
            self._keys.addWidget(label(keys[key], "muted"), place, 1)
        self._keys.setColumnStretch(1, 1)
        self.game.set_keys(set(keys))

    # ------------------------------------------------------------ playing

    @property
    def playing(self) -> bool:
        """Whether a game is on."""
        return self._link is not None

    @property
    def score(self) -> str:
        """Where the game stands."""
        return self._score.text()

    def begin(self) -> None:
        """Start a game as a run of its own."""
        if self.playing or self.env.problem or self.seed.problem or self.fps.problem:
            return
        config = build.play(
            HUMAN,
            self.env.text,
            seed=int(self.seed.value() or 0),
            fps=self.fps.value(),
            env_kwargs=self.options.values(),
        )
        self._submit(lambda client: client.submit(config))

    def begin_table(self, match: Match, against: str) -> None:
        """Sit down at a table for two; who sits opposite is an agent of the arena."""
        if not self.playing:
            self._submit(lambda client: invite(client, against, match))

    def _submit(self, begin: Callable[[TrainerClient], RunRecord]) -> None:
        self.start.setEnabled(False)
        self.game.view.clear("Starting the environment …")
        link = self._services.link
        link.ask(begin, lambda run: self._on_run(run, link), self._on_refused)

    def end(self) -> None:
        """End the game; what was played stays recorded."""
        if self._link is not None:
            self._link.quit()

    def leave(self) -> None:
        """The window closes; without a player the game ends by itself."""
        if self._link is not None:
            self._link.close()
            self._link.deleteLater()
            self._link = None

    def _on_run(self, run: RunRecord, link: DaemonLink) -> None:
        self.run_id = run.run_id
        self._services.store.put(run, link.name)
        self._services.selection.select((self.run_id,))
        self._link = PlayLink(link, self.run_id, self)
        self._link.ready.connect(self._on_ready)
        self._link.scene.connect(self._on_scene)
        self._link.gone.connect(self._on_gone)
        self._link.unreachable.connect(self._on_unreachable)

    def _on_refused(self, error: Exception) -> None:
        self.start.setEnabled(True)
        self.game.view.clear(_START)
        self.banner.say("danger", str(error))

    def _on_ready(self, greeting: Greeting) -> None:
        self._turns = greeting.turn_based
        self._show_keys(greeting.keys)
        self._enable(True)
        self._send_pace()
        self.game.capture()

    def _on_scene(self, image: QImage, scene: Scene) -> None:
        self.game.view.show_image(image)
        self._scene = scene
        over = "   over" if scene.over else ""
        problem = f"   {scene.problem}" if scene.problem else ""
        self._score.setText(f"{scene.caption}{over}{problem}")
        self._say_time()

    def _say_time(self) -> None:
        """Write over the picture why time stands still; nothing while it runs."""
        scene = self._scene
        if not self.playing or scene is None:
            return
        starting = f"Starts in {scene.starts_in} …" if scene.starts_in else ""
        over = "Over. Press any key for the next episode." if scene.over else ""
        self.game.view.say((over or starting) if self.game.captured else _PAUSED)

    def _on_held(self, keys: list[str]) -> None:
        # Where time waits, releasing a key is no move.
        if self._link is not None and (keys or not self._turns):
            self._link.hold(keys)

    def _on_captured(self, captured: bool) -> None:
        """Time stands still while the keys go elsewhere: the player could not react."""
        if self._link is not None:
            self._link.hold_time(not captured)
            self._say_time()

    def _send_pace(self) -> None:
        if self._link is not None:
            self._link.set_pace(float(self.pace.currentData()))

    def _on_unreachable(self, reason: str) -> None:
        run_id = self.run_id
        self._finish("Playing needs the trainer daemon on this machine, run by the same user.")
        self.banner.say("warning", f"The game cannot be reached from here: {reason}")
        # Without a player the game would hold its slot until it gives up waiting.
        self._services.link_of(run_id).ask(lambda client: client.cancel(run_id))

    def _on_gone(self) -> None:
        self._finish("The game is over. Its episodes are in the run's Replay tab.")

    def _on_runs(self, ids: set[str]) -> None:
        if self.run_id in ids and self._link is not None:
            run = self._services.store.get(self.run_id)
            if run is None or run.ended:
                self._finish((run.reason if run else "") or "The game is over.")

    def _finish(self, words: str) -> None:
        self.leave()
        self._scene = None
        self.game.release()
        self._enable(False)
        self.game.view.say(words)

    def _reset(self) -> None:
        if self._link is not None:
            self._link.reset()
            self.game.capture()

    def _enable(self, playing: bool) -> None:
        self.start.setEnabled(not playing)
        self.again.setEnabled(playing)
        self.stop.setEnabled(playing)
        self.env.setEnabled(not playing)
        self.seed.setEnabled(not playing)
        self.options.setEnabled(not playing)


def _playable(item: EnvironmentFacts) -> bool:
    drawn_elsewhere = item["family"] in ("dm_control", "procgen", "mosaic")
    return not drawn_elsewhere and not item["id"].endswith("NoFrameskip-v4")
