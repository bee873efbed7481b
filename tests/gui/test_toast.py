"""Notices: they cover nothing, keep their words, and do what they offer."""

import os

import pytest
from qtpy.QtCore import QRect
from qtpy.QtWidgets import QWidget

from gym_gui.models.notices import Notice

from .conftest import Driver


def _place(driver: Driver, widget: QWidget) -> QRect:
    return QRect(widget.mapTo(driver.window, widget.rect().topLeft()), widget.size())


@pytest.mark.parametrize("width", [1024, 1500])
def test_a_notice_covers_nothing(driver: Driver, width: int) -> None:
    """It is beside the menus: no panel, tool, menu or footer is below it, at any width."""
    driver.connected()
    window = driver.window
    window.resize(width, 700)
    driver.spin(0.1)
    text = "ppo-CartPole-v1: cancelled at step 12,345 after 3 minutes, as you asked for" * 2
    pressed: list[str] = []
    notice = Notice("success", text, "why\nand how", "Undo", lambda: pressed.append("undo"))
    driver.services.notices.say(notice)
    toast = window.toast
    assert toast.isVisible()
    place = _place(driver, toast)
    bar = window.menuBar()
    assert _place(driver, bar).contains(place)
    assert not any(bar.actionGeometry(action).intersects(place) for action in bar.actions())
    # Words that do not fit are shortened where one can see it, and all there on the tool tip.
    assert toast.text.text().endswith("…")
    assert toast.text.toolTip().startswith(text)
    assert "and how" in toast.text.toolTip()
    for one in (toast.action, toast.more):
        assert toast.rect().contains(one.geometry())
    if folder := os.environ.get("MOSAIC_TEST_PICTURES"):
        window.grab().save(f"{folder}/toast-{width}.png")
    toast.action.click()
    assert pressed == ["undo"]
    assert not toast.isVisible()


def test_the_newest_notice_is_shown_and_all_are_kept(driver: Driver) -> None:
    """Thirty runs that end at once are one line, and thirty entries of the list."""
    before = len(driver.services.notices.history)
    for number in range(30):
        driver.services.notices.info(f"run {number} has ended")
    assert driver.window.toast.text.toolTip() == "run 29 has ended"
    assert len(driver.services.notices.history) == before + 30
