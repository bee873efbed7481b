"""The launch dock: the actor roster, and the forms of the chosen actor."""

from collections.abc import Mapping

from qtpy.QtCore import Qt, QTimer, Signal
from qtpy.QtGui import QBrush, QGuiApplication
from qtpy.QtWidgets import QComboBox, QStackedWidget, QTabBar, QTabWidget, QWidget

from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.forms.base import WorkerForm
from gym_gui.forms.registry import FORMS, forms_for
from gym_gui.forms.sweep_form import SweepForm
from gym_gui.models.actors import HUMAN, Actor
from gym_gui.models.stored import fields
from gym_gui.panels.where_choice import WhereChoice
from gym_gui.services import Services
from gym_gui.widgets.controls import button, modest
from gym_gui.widgets.labels import ElidedLabel, label
from gym_gui.widgets.layouts import as_panel, column, row
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.qt_types import sure

# The most typing that a killed window loses.
_SAVE_DELAY_MS = 800
DEFAULT_ACTOR = "cleanrl"


class LaunchPanel(QWidget):
    """Choose who acts, fill in the form, send it.

    Signals:
        submitted: A list of `Launch`, and the form that they came from.
        play_wanted: The user wants to play.
        actors_changed: The roster is known or changed.
        sweep_begun: A sweep runs; its id.
    """

    submitted = Signal(list, object)
    play_wanted = Signal()
    actors_changed = Signal(list)
    sweep_begun = Signal(str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self.actors: list[Actor] = []
        self.choice = QComboBox()
        self.choice.setAccessibleName("Actor")
        modest(self.choice)
        self.choice.currentIndexChanged.connect(self._on_choice)
        self._lane = ElidedLabel("", "muted")
        self._forms: dict[str, WorkerForm] = {}
        self._tabs = QTabWidget()
        self._tabs.setDocumentMode(True)
        self._tabs.currentChanged.connect(lambda _place: self._fill_tab())
        self._kinds: list[str] = []
        self._human = EmptyState(
            "Play it yourself",
            "You are the agent: any Gymnasium environment, from the keyboard, recorded for replay.",
            "Open the Play layout",
            self.play_wanted.emit,
        )
        self._missing = _MissingWorker(services)
        self._waiting = EmptyState("Looking for workers", "Waiting for the trainer daemon's list.")
        self._stack = QStackedWidget()
        for page in (self._waiting, self._tabs, self._human, self._missing):
            self._stack.addWidget(page)
        self.where = WhereChoice(services)
        top = row(label("Actor", "section"), self.choice, self._lane, self.where, margin=8)
        top.setStretch(2, 1)
        self.setLayout(column(top, self._stack, spacing=0))
        self.where.refresh()
        services.themes.changed.connect(self._recolour)
        self._kept = self._load_kept()
        self._save_timer = QTimer(self)
        self._save_timer.setSingleShot(True)
        self._save_timer.setInterval(_SAVE_DELAY_MS)
        self._save_timer.timeout.connect(self.save)

    # ------------------------------------------------------------ the roster

    def set_actors(self, actors: list[Actor]) -> None:
        """Who can act on the daemon that new runs go to."""
        # A reconnection brings the same list; building the roster again would reset the forms.
        if actors == self.actors:
            return
        self.actors = actors
        for key, form in self._forms.items():
            actor = self.actor_of(key.partition("/")[0])
            if actor is not None and actor.available:
                form.set_actor(actor)
        before = self.current.worker_type if self.current else str(self._kept.get("actor") or "")
        # Refilling would choose the first actor, and build its forms, on the way.
        self.choice.blockSignals(True)
        self.choice.clear()
        for actor in actors:
            title = actor.title if actor.available else f"{actor.title}  (not available)"
            self.choice.addItem(title, actor)
            tip = actor.lane if actor.available else actor.problem
            self.choice.setItemData(self.choice.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self._recolour()
        self.choice.setCurrentIndex(-1)
        self.choice.blockSignals(False)
        self.choose(before or DEFAULT_ACTOR)
        self.actors_changed.emit(actors)

    def _recolour(self) -> None:
        themes = self._services.themes
        for place, actor in enumerate(self.actors):
            name = "person" if actor.worker_type == HUMAN else "robot"
            self.choice.setItemIcon(
                place, themes.icon(name, "text" if actor.available else "faint")
            )
            grey = None if actor.available else QBrush(themes.colour("faint"))
            self.choice.setItemData(place, grey, Qt.ItemDataRole.ForegroundRole)

    @property
    def current(self) -> Actor | None:
        """The chosen actor."""
        actor = self.choice.currentData()
        return actor if isinstance(actor, Actor) else None

    def choose(self, worker_type: str) -> None:
        """Choose an actor by its type."""
        types = [actor.worker_type for actor in self.actors]
        if worker_type in types:
            self.choice.setCurrentIndex(types.index(worker_type))
        elif self.actors:
            self.choice.setCurrentIndex(len(self.actors) - 1)

    def actor_of(self, worker_type: str) -> Actor | None:
        """The actor behind a worker type."""
        return next((a for a in self.actors if a.worker_type == worker_type), None)

    def _on_choice(self) -> None:
        actor = self.current
        if actor is None:
            return
        self._lane.set_full(actor.lane if actor.available else "")
        if actor.worker_type == HUMAN and actor.available:
            self._stack.setCurrentWidget(self._human)
        elif not actor.available or actor.capabilities is None:
            self._missing.show_actor(actor)
            self._stack.setCurrentWidget(self._missing)
        else:
            self._show_forms(actor)
            self._stack.setCurrentWidget(self._tabs)
        self._save_timer.start()

    def _show_forms(self, actor: Actor) -> None:
        # Each tab that is added would be filled at once; only the one in front is needed.
        self._tabs.blockSignals(True)
        for form in self._forms.values():
            # Forms outlive the tabs they are shown in: half-filled ones come back as they were.
            form.setParent(None)
        self._tabs.clear()
        self._kinds = forms_for(actor)
        for kind in self._kinds:
            self._tabs.addTab(QWidget(), FORMS[kind].title)
        self._tabs.blockSignals(False)
        sure(self._tabs.tabBar()).setVisible(self._tabs.count() > 1)
        self._fill_tab()

    def _fill_tab(self) -> None:
        """Make the form in front; the others wait until they are looked at."""
        page, place = self._tabs.currentWidget(), self._tabs.currentIndex()
        if self.current is not None and page is not None and page.layout() is None:
            form = self.form(self._kinds[place], self.current.worker_type)
            page.setLayout(column(form))
            form.show()

    # ------------------------------------------------------------ the forms

    def form(self, kind: str, worker_type: str = DEFAULT_ACTOR) -> WorkerForm:
        """A form of a worker, made when it is first needed."""
        key = f"{worker_type}/{kind}"
        if key not in self._forms:
            form = FORMS[kind].make(self._services)
            _restore(form, _kept_forms(self._kept).get(key))
            form.submitted.connect(
                lambda launches, source=form: self.submitted.emit(launches, source)
            )
            form.edited.connect(self._save_soon)
            if isinstance(form, SweepForm):
                form.begun.connect(self.sweep_begun)
            self._forms[key] = form
            actor = self.actor_of(worker_type)
            if actor is not None:
                form.set_actor(actor)
        return self._forms[key]

    def show_form(self, kind: str, worker_type: str) -> WorkerForm:
        """Bring a form of a worker to the front."""
        self.choose(worker_type)
        if kind in self._kinds:
            self._tabs.setCurrentIndex(self._kinds.index(kind))
        return self.form(kind, worker_type)

    @property
    def tab_bar(self) -> QTabBar:
        """The titles of the forms."""
        return sure(self._tabs.tabBar())

    @property
    def current_form(self) -> WorkerForm | None:
        """The form in front."""
        page = self._tabs.currentWidget()
        return page.findChild(WorkerForm) if page is not None else None

    # ------------------------------------------------------------ never lost

    def _save_soon(self) -> None:
        # Not put off by further typing: what a killed window loses is one moment's work.
        if not self._save_timer.isActive():
            self._save_timer.start()

    def save(self) -> None:
        """Store what is in the forms."""
        document = self.content()
        path = window_folder(self._services.link.home) / "forms.json"
        self._services.calls.run(lambda: write_json(path, document))

    def save_now(self) -> None:
        """Store what is in the forms before the window goes."""
        self._save_timer.stop()
        path = window_folder(self._services.link.home) / "forms.json"
        try:
            write_json(path, self.content())
        except OSError as error:
            self._services.notices.error("The forms could not be stored", error)

    def content(self) -> dict[str, object]:
        """What is in the forms, and whose turn it is."""
        forms = dict(_kept_forms(self._kept))
        forms.update({key: form.content() for key, form in self._forms.items()})
        actor = self.current.worker_type if self.current else self._kept.get("actor")
        return {"actor": actor, "forms": forms}

    def _load_kept(self) -> Mapping[str, object]:
        try:
            stored = read_json(window_folder(self._services.link.home) / "forms.json")
        except (ValueError, OSError):
            return {}
        return stored if isinstance(stored, dict) else {}


class _MissingWorker(QWidget):
    """A worker that is not installed: the reason, and the command to copy."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._command = ""
        self._state = EmptyState("", "")
        self._copy = button("Copy the command", self._on_copy)
        self.setLayout(column(self._state, row(1, self._copy, 1), 2))

    def show_actor(self, actor: Actor) -> None:
        """Explain an actor that cannot be used."""
        self._command = actor.problem.partition("run: ")[2]
        self._state.say(f"{actor.title} cannot be used yet", actor.problem)
        self._copy.setVisible(bool(self._command))

    def _on_copy(self) -> None:
        sure(QGuiApplication.clipboard()).setText(self._command)
        self._services.notices.info(f"Copied: {self._command}")


def _kept_forms(kept: Mapping[str, object]) -> Mapping[str, object]:
    forms = kept.get("forms")
    return forms if isinstance(forms, Mapping) else {}


def _restore(form: WorkerForm, stored: object) -> None:
    if not stored:
        return
    try:
        form.restore(fields(stored))
    except (TypeError, ValueError, KeyError, AttributeError):
        pass  # a form stored by another version is not worth an error at start-up
