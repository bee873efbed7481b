"""A curriculum and a script of two phases, built by mouse and keyboard in the forms.

`make screenshots` runs it, and so does a test of `make prove`: it ends with an error if a click has
not the effect that a person expects.
"""

import os
import sys
from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

from mouse import Mouse
from photographer import Photographer, take_pictures
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QLineEdit, QScrollArea, QWidget

from gym_gui.forms.script_form import ScriptForm
from gym_gui.forms.train_form import TrainForm
from gym_gui.tabs.charts_tab import ChartsTab
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.picker import Picker

_LONG_S = 600.0
STAGES = ("MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-6x6-v0", "MiniGrid-Empty-8x8-v0")


def write(mouse: Mouse, line: QLineEdit, text: str) -> None:
    """Click into a line and type over what is there."""
    mouse.click(line)
    QTest.keyClick(line, Qt.Key.Key_End)
    QTest.keyClick(line, Qt.Key.Key_Home, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(line, text)


def pick(camera: Photographer, mouse: Mouse, picker: Picker, name: str) -> None:
    """Type the name of something that can be chosen."""
    line = picker.combo.lineEdit()
    assert line is not None
    write(mouse, line, name)
    # The list that opens while typing has the keyboard; a click beside it might choose from it.
    camera.spin(0.3)
    QTest.keyClick(QApplication.activePopupWidget() or line, Qt.Key.Key_Return)
    camera.until(lambda: QApplication.activePopupWidget() is None, "the list is closed")
    camera.until(lambda: picker.text == name and not picker.problem, f"{name} is chosen", 30)


def build_curriculum(camera: Photographer, mouse: Mouse) -> None:
    """Three rooms, the first two until they are learned."""
    window = camera.window
    camera.until(lambda: window.launch.actors and window.services.store.complete, "connected")
    form = window.launch.form("train")
    assert isinstance(form, TrainForm)
    camera.until(lambda: form.described == "ppo" and form.env.names, "the form")
    mouse.click(window.welcome.own)
    section = form.curriculum
    mouse.choose(section.kind, "stages below")
    mouse.click(section.stages.add)
    for card, name in zip(section.stages.cards, STAGES, strict=True):
        pick(camera, mouse, card.env, name)
    for card in section.stages.cards[:2]:
        write(mouse, card.steps, "800")
        write(mouse, card.reached, "0.9")
    write(mouse, form.steps, "4096")
    camera.until(lambda: not form.problems(), "the form is complete")
    scroll_to(section.kind)
    camera.shoot("phases-curriculum")
    mouse.click(form.bar.train)
    shown = finished(camera, 1)
    stages = charts_of(camera, mouse, shown)
    marked = lambda: [text for _, text in stages().phases.shown]  # noqa: E731
    camera.until(lambda: marked() == list(STAGES), "every stage is marked")
    camera.shoot("phases-stages", wait_s=1)


def build_phases(camera: Photographer, mouse: Mouse) -> None:
    """Learn quickly, then carefully."""
    window = camera.window
    mouse.tool(window.binder.actions["view.train"])
    mouse.tab(window.launch.tab_bar, "Script")
    form = window.launch.current_form
    assert isinstance(form, ScriptForm)
    first = form.phases.cards[0]
    camera.until(lambda: first.algo.names and first.choice.description, "the algorithms")
    mouse.click(form.phases.add)
    first, second = form.phases.cards
    camera.until(lambda: second.algo.names, "the algorithms of the second phase")
    write(mouse, first.name, "quick")
    pick(camera, mouse, first.algo, "ppo")
    pick(camera, mouse, first.env, "CartPole-v1")
    write(mouse, first.steps, "20k")
    write(mouse, first.settings, "learning_rate=0.002")
    write(mouse, second.name, "careful")
    mouse.choose(second.begins, "where the phase before ended")
    write(mouse, second.steps, "20k")
    write(mouse, second.settings, "learning_rat=1e-4")
    camera.until(lambda: "did you mean" in form.facts.text(), "the mistake is named")
    scroll_to(second.settings)
    camera.shoot("phases-mistake")
    write(mouse, second.settings, "learning_rate=1e-4")
    camera.until(form.start.isEnabled, "the form is complete")
    scroll_to(form.phases.cards[0].name)
    camera.shoot("phases-form")
    scroll_to(form.text)
    camera.shoot("phases-script")
    mouse.click(form.start)
    shown = finished(camera, 2)
    chart = charts_of(camera, mouse, shown)
    marked = lambda: [text for _, text in chart().phases.shown]  # noqa: E731
    camera.until(lambda: marked() == ["quick", "careful"], "both phases are marked")
    camera.shoot("phases-charts", wait_s=1)


def finished(camera: Photographer, count: int) -> str:
    """The newest run, once so many have ended."""
    runs = camera.services.store.runs

    def ended() -> bool:
        real = [run for run in runs.values() if run.version]
        return len(real) == count and all(run.ended for run in real)

    camera.until(ended, f"{count} runs have ended", _LONG_S)
    newest = max(runs.values(), key=lambda run: run.created_at)
    assert newest.completed, newest.reason
    return newest.run_id


def charts_of(camera: Photographer, mouse: Mouse, run_id: str) -> Callable[[], Chart]:
    """The first chart of a run, asked for again whenever it is needed."""
    window = camera.window
    mouse.tool(window.binder.actions["view.watch"])
    window.runs_panel.show_run(run_id)
    camera.until(lambda: "charts" in window.run_panel.shown, "the tabs of the run")
    mouse.tab(window.run_panel.tabs.tabBar(), "Charts")
    tab = window.run_panel.tab("charts")
    assert isinstance(tab, ChartsTab)
    camera.until(lambda: tab.grid.cards and tab.grid.complete, "the charts")
    return lambda: tab.grid.cards[min(tab.grid.cards)].chart


def scroll_to(widget: QWidget) -> None:
    """Bring a field to the top of its form."""
    area = widget.parentWidget()
    while area is not None and not isinstance(area, QScrollArea):
        area = area.parentWidget()
    if area is not None and area.verticalScrollBar() is not None:
        area.verticalScrollBar().setValue(widget.mapTo(area.widget(), widget.rect().topLeft()).y())


def act(camera: Photographer) -> None:
    """Build and train both."""
    mouse = Mouse(camera)
    build_curriculum(camera, mouse)
    build_phases(camera, mouse)


if __name__ == "__main__":
    sys.exit(take_pictures(__file__, __doc__, act))
