"""A policy at play, and the controls by which a person takes over and hands back."""

from qtpy.QtCore import Signal
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QWidget

from gym_gui.background.play_link import PlayLink
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.game_view import GameView
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from mosaic.client.play import Greeting, Scene
from mosaic.presenting.actor import PERSON, POLICY

_WAITING = "The policy is being loaded …"
_POLICY_PLAYS = "The policy plays."
# Keys beyond these are named by the environment's own documentation.
_MOST_KEYS = 8


class SessionView(QWidget):
    """The game of a session, who plays it, and the button that changes that.

    Signals:
        over: The session has ended, or cannot be reached; with the reason.
    """

    over = Signal(str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._link: PlayLink | None = None
        self._turns = False
        self._keys = ""
        self.control = POLICY
        self.game = GameView(services.themes)
        self.swap = button("Take over", self._swap, "primary")
        self.again = button("New episode", self._reset)
        self.stop = button("End session", self._end)
        self._who = label("", "section")
        self._score = label("", "muted")
        bar = row(self._who, self._score, 1, self.again, self.stop, self.swap)
        self.setLayout(column(self.game, bar, spacing=6, stretch={0: 1}))
        self.game.held.connect(self._on_held)
        # A click into the picture is a wish to play.
        self.game.captured_changed.connect(self._on_captured)
        self._enable(False)

    def open(self, run_id: str) -> None:
        """Join a session."""
        self.close_link()
        self.game.view.clear(_WAITING)
        self._link = PlayLink(self._services.link_of(run_id), run_id, self)
        self._link.ready.connect(self._on_ready)
        self._link.scene.connect(self._on_scene)
        self._link.gone.connect(lambda: self._finish("The session has ended."))
        self._link.unreachable.connect(
            lambda reason: self._finish(f"The session cannot be reached from here: {reason}")
        )

    def close_link(self) -> None:
        """Leave; the policy plays on for a while, and waits for who comes back."""
        if self._link is not None:
            self._link.close()
            self._link.deleteLater()
            self._link = None
        self.game.release()
        self._enable(False)
        self._show_control(POLICY)
        self._who.setText("")
        self._score.setText("")

    def _on_ready(self, greeting: Greeting) -> None:
        self._turns = greeting.turn_based
        keys = greeting.keys
        self.game.set_keys(set(keys))
        named = [key for key in keys if not key.isdigit()] or list(keys)
        self._keys = ", ".join(named[:_MOST_KEYS])
        self._enable(True)
        self.game.view.say("")

    def _on_scene(self, image: QImage, scene: Scene) -> None:
        self.game.view.show_image(image)
        self._show_control(scene.control)
        self._score.setText(scene.caption)

    def _show_control(self, control: str) -> None:
        if control == self.control:
            return
        self.control = control
        mine = control == PERSON
        self.swap.setText("Hand back" if mine else "Take over")
        self._who.setText(f"You play with {self._keys}." if mine else _POLICY_PLAYS)

    def _swap(self) -> None:
        if self._link is None:
            return
        if self.control == PERSON:
            self.game.release()
            self._link.hand_back()
        else:
            # The keys come with a wish to play, which is said where they are captured.
            self.game.capture()

    def _on_captured(self, captured: bool) -> None:
        if captured and self._link is not None and self.control == POLICY:
            self._link.take_over()

    def _on_held(self, keys: list[str]) -> None:
        # Where time waits, releasing a key is no move.
        if self._link is not None and (keys or not self._turns):
            self._link.hold(keys)

    def _reset(self) -> None:
        if self._link is not None:
            self._link.reset()

    def _end(self) -> None:
        if self._link is not None:
            self._link.quit()

    def _finish(self, words: str) -> None:
        self.close_link()
        self.over.emit(words)

    def _enable(self, on: bool) -> None:
        for one in (self.swap, self.again, self.stop):
            one.setEnabled(on)
        if on:
            self._who.setText(_POLICY_PLAYS)
        # Without a session a click into the picture takes nothing.
        self.game.setEnabled(on)
