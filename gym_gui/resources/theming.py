"""Putting a theme on: palette, style sheet, charts; following the system when asked to."""

import tempfile
from pathlib import Path

from qtpy.QtCore import QObject, Qt, Signal
from qtpy.QtGui import QColor, QGuiApplication, QIcon, QPalette
from qtpy.QtWidgets import QApplication

from gym_gui.resources import icons
from gym_gui.resources.stylesheet import stylesheet
from gym_gui.resources.themes import DARK, LIGHT, Theme
from gym_gui.widgets.qt_types import sure


class ThemeManager(QObject):
    """The theme in use.

    Signals:
        changed: The theme is another one; what is painted by hand is painted again.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.theme: Theme = LIGHT
        self._choice = "system"
        self._points = 10.0
        self._pictures = tempfile.TemporaryDirectory(prefix="mosaic-theme-")
        hints = sure(QGuiApplication.styleHints())
        if hasattr(hints, "colorSchemeChanged"):
            hints.colorSchemeChanged.connect(self._on_system_change)

    def apply(self, choice: str, font_points: float) -> None:
        """Use `light`, `dark` or what the `system` uses, at a font size."""
        self._choice, self._points = choice, font_points
        self.theme = {"light": LIGHT, "dark": DARK}.get(choice) or _system_theme()
        application = QApplication.instance()
        if not isinstance(application, QApplication):
            return
        application.setStyle("Fusion")
        application.setPalette(_palette(self.theme))
        pictures = {
            "tick": self._picture("check", self.theme.on_accent),
            "arrow": self._picture("chevron", self.theme.muted),
            "ahead": self._picture("chevron-right", self.theme.muted),
            "back": self._picture("chevron-left", self.theme.muted),
        }
        application.setStyleSheet(stylesheet(self.theme, font_points, pictures))
        self.changed.emit()

    def icon(self, name: str, tone: str = "text") -> QIcon:
        """An icon in one of the theme's colours."""
        return icons.icon(name, self.theme.tone(tone), self.theme.faint)

    def colour(self, tone: str) -> QColor:
        """One of the theme's colours."""
        return QColor(self.theme.tone(tone))

    def close(self) -> None:
        """Remove the pictures made for the style sheet."""
        self._pictures.cleanup()

    def _on_system_change(self) -> None:
        if self._choice == "system":
            self.apply(self._choice, self._points)

    def _picture(self, name: str, colour: str) -> str:
        # Style sheets take pictures only from files.
        path = Path(self._pictures.name) / f"{name}-{colour.lstrip('#')}.png"
        if not path.exists():
            icons.pixmap(name, colour, 24).save(str(path))
        return path.as_posix()


def _system_theme() -> Theme:
    hints = sure(QGuiApplication.styleHints())
    if hasattr(hints, "colorScheme"):
        return DARK if hints.colorScheme() == Qt.ColorScheme.Dark else LIGHT
    return LIGHT


def _palette(theme: Theme) -> QPalette:
    palette = QPalette()
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.surface,
        role.AlternateBase: theme.raised,
        role.ToolTipBase: theme.raised,
        role.ToolTipText: theme.text,
        role.Text: theme.text,
        role.PlaceholderText: theme.faint,
        role.Button: theme.raised,
        role.ButtonText: theme.text,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.Link: theme.accent,
    }
    for which, colour in colours.items():
        palette.setColor(which, QColor(colour))
    disabled = QPalette.ColorGroup.Disabled
    for which in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(disabled, which, QColor(theme.faint))
    return palette
