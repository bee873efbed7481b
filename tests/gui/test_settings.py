"""The settings dialog, made from the declarations of the window's and the daemon's settings."""

from collections.abc import Callable

from qtpy.QtWidgets import QComboBox, QDialogButtonBox, QLineEdit

from gym_gui.models.window_settings import load_window_settings
from gym_gui.panels.settings_dialog import SettingsDialog
from mosaic.config.paths import Home
from mosaic.config.settings import load_settings

from .conftest import Driver


def _dialog(driver: Driver) -> SettingsDialog:
    driver.window.binder.trigger("app.settings")
    driver.until(lambda: driver.window.findChildren(SettingsDialog) != [], "the dialog")
    return driver.window.findChildren(SettingsDialog)[-1]


def _line(dialog: SettingsDialog, title: str) -> QLineEdit:
    (line,) = (each for each in dialog.findChildren(QLineEdit) if each.accessibleName() == title)
    return line


def test_a_wrong_setting_is_named_and_a_right_one_kept(
    open_window: Callable[..., Driver], empty_home: Home
) -> None:
    """Nothing is stored while a value does not fit; what fits is there at the next start."""
    driver = open_window(empty_home)
    dialog = _dialog(driver)
    driver.until(lambda: dialog.isVisible(), "the dialog on the screen")
    grace, slots = _line(dialog, "Grace period"), _line(dialog, "CPU slots")
    assert (grace.text(), slots.text(), slots.placeholderText()) == ("30", "", "none")
    (save,) = dialog.findChildren(QDialogButtonBox)
    button = save.button(QDialogButtonBox.StandardButton.Save)
    assert button is not None

    grace.setText("-1")
    slots.setText("two")
    button.click()
    assert "Grace period: must be greater than 0" in dialog._banner.text
    assert "CPU slots: must be a whole number or null" in dialog._banner.text
    assert dialog.isVisible()
    assert not empty_home.settings.exists()

    grace.setText("12")
    slots.setText("")
    (theme,) = (box for box in dialog.findChildren(QComboBox) if box.accessibleName() == "Theme")
    theme.setCurrentText("dark")
    button.click()
    driver.until(empty_home.settings.exists, "the settings on the disk")
    assert load_settings(empty_home).grace_s == 12.0
    assert load_settings(empty_home).cpu_slots is None
    driver.until(
        lambda: load_window_settings(empty_home)[0].theme == "dark", "the window's settings"
    )
    driver.until(lambda: driver.services.settings.theme == "dark", "the theme in effect")
