"""What an empty workbench says, and the button that ends the emptiness."""

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QGridLayout, QWidget

from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import as_panel, column, framed, row, scrolled

_STEPS = (
    ("Train", "Pick an algorithm and an environment in the form, press Train.", "Ctrl+N"),
    ("Watch", "See the agent act and its return grow while it learns.", "Ctrl+2"),
    ("Analyse", "Compare runs and seeds, read logs, open TensorBoard.", "Ctrl+3"),
    ("Evaluate", "Select a finished run and watch its policy.", "Ctrl+E"),
    ("Play", "Take the controls yourself and replay what you did.", "Ctrl+4"),
    ("Anything", "Every action by name in the command palette.", "Ctrl+Shift+P"),
)


class Welcome(QWidget):
    """The first page: six things to do, one of them a single press away.

    Signals:
        action_wanted: Something to do that the window knows, by the action's id.
        closed: The user wants the table of runs back.
    """

    action_wanted = Signal(str)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        as_panel(self)
        title = label("Welcome to MOSAIC", "title")
        self._text = label("", "muted", wrap=True)
        self.back = button("Back to the runs", self.closed.emit)
        self.set_runs(0)
        self.start = button("Train CartPole now", self._train, "primary")
        self.own = button("Fill in the form myself", lambda: self.action_wanted.emit("run.new"))
        grid = QGridLayout()
        grid.setSpacing(8)
        for place, (name, what, key) in enumerate(_STEPS):
            text_of_step = label(what, "muted", wrap=True)
            words = column(label(name, "section"), text_of_step, 1, label(key), spacing=4)
            words.setContentsMargins(12, 10, 12, 10)
            card = framed(words)
            card.setMinimumWidth(150)
            grid.addWidget(card, place // 2, place % 2)
        inner = QWidget()
        inner.setLayout(
            column(
                title,
                self._text,
                row(self.start, self.own, self.back, 1),
                grid,
                1,
                margin=24,
                spacing=14,
            )
        )
        inner.setMaximumWidth(760)
        host = QWidget()
        host.setLayout(row(1, inner, 1, stretch={1: 20}))
        area = scrolled(host)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setLayout(column(area))

    def set_runs(self, count: int) -> None:
        """How many runs there are: with none there is nothing to go back to."""
        self.back.setVisible(count > 0)
        there = f"{count:,} runs are in the table." if count else "No runs yet."
        self._text.setText(
            f"{there} The quickest way to see what this is about: train an agent to balance "
            "a pole. It takes about half a minute on a laptop, without a GPU."
        )

    def _train(self) -> None:
        self.action_wanted.emit("run.train_cartpole")
        # Short as it is, the run would be over before anyone finds where the agent is seen.
        self.action_wanted.emit("tab.live")
