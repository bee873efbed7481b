"""A small screen with large text: 1024 × 700 at 14 pt."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from qtpy.QtCore import QSize
from qtpy.QtWidgets import QApplication, QLabel, QToolButton, QWidget

from gym_gui.models.dock_layouts import LAYOUTS
from gym_gui.widgets.layouts import column, scrolled
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import FoldingSplitter, WrappingRow

from .conftest import Driver

SCREEN = QSize(1024, 700)


@pytest.fixture
def small(driver: Driver) -> Iterator[Driver]:
    """A window on a small screen, with large text."""
    window = driver.window
    before, size = driver.services.settings.font_points, window.size()
    window.change_settings(replace(window.services.settings, font_points=14.0))
    window.resize(SCREEN)
    driver.spin(0.1)
    yield driver
    window.change_settings(replace(window.services.settings, font_points=before))
    window.resize(size)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_window_fits_and_does_not_grow(small: Driver, trained: list[str], layout: str) -> None:
    """No layout needs more than the screen has, and showing one leaves the size alone."""
    window = small.window
    small.services.selection.select((trained[0],))
    window.show_layout(layout)
    small.spin(0.2)
    hint = window.minimumSizeHint()
    assert hint.width() <= SCREEN.width()
    assert hint.height() <= SCREEN.height()
    assert window.size() == SCREEN


def test_a_row_wraps_and_a_splitter_folds(driver: Driver) -> None:
    """What does not fit beside each other is below each other, and comes back."""
    buttons = [QToolButton() for _ in range(4)]
    for tool in buttons:
        tool.setText("a button with text")
    host = QWidget()
    host.setLayout(WrappingRow(*buttons))
    split = FoldingSplitter()
    for part in (host, QLabel("a second part")):
        part.setMinimumWidth(200)
        split.addWidget(part)
    split.show()
    split.resize(1200, 300)
    driver.spin(0.05)
    assert len({tool.y() for tool in buttons}) == 1
    assert len({sure.x() for sure in (split.widget(0), split.widget(1)) if sure}) == 2
    split.resize(220, 600)
    driver.spin(0.05)
    assert len({tool.y() for tool in buttons}) > 1
    assert len({sure.x() for sure in (split.widget(0), split.widget(1)) if sure}) == 1
    # The first part is what the panel is for; what explains it takes less.
    first, second = split.sizes()
    assert first > 2 * second
    split.close()
    split.deleteLater()


def test_parts_that_were_folded_get_their_widths_back(qapp: object) -> None:
    """A panel that was narrow for a moment does not leave its form wider than its picture."""
    split = FoldingSplitter()
    for width in (290, 420):
        part = QWidget()
        part.setMinimumWidth(width)
        split.addWidget(part)
    split.setSizes([350, 650])
    split.resize(1000, 500)
    split.show()
    QApplication.processEvents()
    before = split.sizes()
    for width in (500, 1000):
        split.resize(width, 500)
        QApplication.processEvents()
    assert split.sizes() == before
    split.close()
    split.deleteLater()


def test_a_form_that_gets_wider_fields_later_is_not_cut(qapp: object) -> None:
    """What an environment or an algorithm adds to a form moves its edge; nothing is behind it."""
    fields = column(QLabel("short"))
    inner = QWidget()
    inner.setLayout(fields)
    area, host = scrolled(inner), QWidget()
    host.setLayout(column(area))
    split = FoldingSplitter()
    for part in (host, QWidget()):
        split.addWidget(part)
    split.resize(1000, 500)
    split.show()
    split.setSizes([100, 900])
    QApplication.processEvents()
    wide = QWidget()
    wide.setMinimumWidth(400)
    fields.addWidget(wide)
    # A layout asks the one around it, in an event of its own, and so on outwards.
    for _ in range(10):
        QApplication.processEvents()
    assert sure(area.viewport()).width() >= inner.minimumSizeHint().width() >= 400
    split.close()
    split.deleteLater()
