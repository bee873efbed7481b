"""The one style sheet, filled in with a theme's colours."""

from collections.abc import Mapping
from string import Template

from gym_gui.resources.themes import Theme

_TEMPLATE = Template(
    """
* { outline: none; }
QWidget { color: $text; font-size: ${font}pt; }
QMainWindow, QDialog { background: $window; }
QMainWindow::separator { background: $window; width: 5px; height: 5px; }
QMainWindow::separator:hover { background: $accent; }
QToolTip { background: $raised; color: $text; border: 1px solid $border; padding: 4px 6px; }

QDockWidget { color: $muted; font-weight: 600; }
QDockWidget::title { background: $window; padding: 5px 8px; }

QFrame#card { background: $surface; border: 1px solid $border; border-radius: 8px; }
QFrame#panel, QWidget#panel { background: $surface; }
QFrame#raised { background: $raised; border: 1px solid $border; border-radius: 6px; }
QFrame#banner { border-radius: 6px; border: 1px solid $border; background: $raised; }
QFrame#banner[tone="warning"] { border-color: $warning; }
QFrame#banner[tone="danger"] { border-color: $danger; }
QFrame#banner[tone="info"] { border-color: $info; }
QFrame#banner[tone="success"] { border-color: $success; }

QLabel { background: transparent; }
QLabel#title { font-size: ${font_title}pt; font-weight: 600; }
QLabel#headline { font-size: ${font_headline}pt; font-weight: 600; }
QLabel#section { font-weight: 600; color: $text; }
QLabel#muted { color: $muted; }
QLabel#number { font-size: ${font_headline}pt; font-weight: 600; }
QLabel#error { color: $danger; }
QLabel#changed { color: $accent; font-weight: 700; }
QLabel#code { font-family: monospace; background: $raised; border-radius: 4px; padding: 6px; }

QPushButton, QToolButton {
    background: $raised; border: 1px solid $border; border-radius: 6px; padding: 5px 12px;
}
QToolButton { padding: 4px 6px; }
QToolButton#flat { background: transparent; border-color: transparent; }
QPushButton:hover, QToolButton:hover { border-color: $accent; }
QPushButton:pressed, QToolButton:pressed, QToolButton:checked { background: $selection; }
QPushButton:focus, QToolButton:focus { border: 1px solid $accent; }
QPushButton:disabled, QToolButton:disabled { color: $faint; }
QPushButton#primary { background: $accent; border-color: $accent; color: $on_accent;
    font-weight: 600; }
QPushButton#primary:hover { background: $accent_strong; }
QPushButton#primary:focus { border: 2px solid $text; padding: 4px 11px; }
QPushButton#primary:disabled { background: $raised; border-color: $border; color: $faint; }
QPushButton#link { background: transparent; border: none; color: $accent; padding: 2px;
    text-align: left; }
QPushButton#link:focus { text-decoration: underline; }
QPushButton::menu-indicator, QToolButton::menu-indicator { width: 0; }

QLineEdit, QPlainTextEdit, QTextEdit, QTextBrowser, QSpinBox, QDoubleSpinBox, QComboBox {
    background: $raised; border: 1px solid $border; border-radius: 6px; padding: 4px 7px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QComboBox:focus, QSpinBox:focus,
QDoubleSpinBox:focus { border-color: $accent; }
QLineEdit[problem="true"], QComboBox[problem="true"] { border: 1px solid $danger; }
QLineEdit:disabled, QComboBox:disabled, QSpinBox:disabled { color: $faint; }
QComboBox::drop-down { border: none; width: 22px; }
QComboBox::down-arrow { image: url($arrow); width: 12px; height: 12px; }
QComboBox QAbstractItemView {
    background: $surface; border: 1px solid $border; selection-background-color: $selection;
    selection-color: $text;
}
QSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::up-button, QDoubleSpinBox::down-button
{ width: 0; border: none; }
QCheckBox, QRadioButton { spacing: 7px; background: transparent; }
QCheckBox::indicator { width: 15px; height: 15px; border: 1px solid $muted; border-radius: 4px;
    background: $raised; }
QAbstractItemView::indicator { width: 14px; height: 14px; border: 1px solid $muted;
    border-radius: 4px; background: $raised; }
QCheckBox::indicator:checked, QAbstractItemView::indicator:checked { background: $accent;
    border-color: $accent; image: url($tick); }
QCheckBox::indicator:disabled { border-color: $border; }
QCheckBox:disabled { color: $faint; }
QCheckBox:focus { color: $accent; }

QTabWidget::pane { border: none; border-top: 1px solid $border; background: $surface; }
QTabBar { background: transparent; qproperty-drawBase: 0; }
QTabBar::tab { background: transparent; color: $muted; padding: 7px 13px; border: none;
    border-bottom: 2px solid transparent; }
QTabBar::tab:selected { color: $text; border-bottom: 2px solid $accent; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:focus { color: $accent; }
QTabBar::tab:disabled { color: $faint; }

QTableView, QTreeView, QListView, QListWidget, QTreeWidget, QTableWidget {
    background: $surface; border: none; gridline-color: $border;
    alternate-background-color: $raised;
    selection-background-color: $selection; selection-color: $text;
}
QListWidget#roster::item { padding: 7px 8px; border-radius: 6px; }
QListWidget#roster::item:selected { background: $selection; color: $text; }
QListWidget#choices::item { padding: 4px 6px; }
QTableView::item { padding: 2px 6px; border: none; }
QTableView::item:focus { border: none; }
/* Not only the sections': Qt shortens their texts by the font of the whole header. */
QHeaderView { background: $surface; font-weight: 600; }
QHeaderView::section { background: $surface; color: $muted; border: none; font-weight: 600;
    border-bottom: 1px solid $border; padding: 6px; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QTabBar::scroller { width: 44px; }
QTabBar QToolButton { background: $surface; border: none; padding: 0; }
QTabBar QToolButton::right-arrow { image: url($ahead); width: 14px; height: 14px; }
QTabBar QToolButton::left-arrow { image: url($back); width: 14px; height: 14px; }
QTableCornerButton::section { background: $surface; border: none; }

QScrollArea { border: none; background: transparent; }
QScrollArea > QWidget > QWidget { background: transparent; }
QScrollBar:vertical { background: transparent; width: 11px; margin: 1px; }
QScrollBar:horizontal { background: transparent; height: 11px; margin: 1px; }
QScrollBar::handle { background: $border; border-radius: 4px; min-height: 28px; min-width: 28px; }
QScrollBar::handle:hover { background: $faint; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }

QMenuBar { background: $window; }
QMenuBar::item { padding: 5px 10px; background: transparent; border-radius: 5px; }
QMenuBar::item:selected { background: $selection; }
QMenu { background: $surface; border: 1px solid $border; padding: 5px; }
QMenu::item { padding: 6px 26px 6px 12px; border-radius: 5px; }
QMenu::item:selected { background: $selection; }
QMenu::item:disabled { color: $faint; }
QMenu::icon { padding-left: 8px; }
QMenu::separator { height: 1px; background: $border; margin: 5px 8px; }
QToolBar { background: $window; border: none; spacing: 4px; padding: 4px 8px; }
QToolBar QToolButton { background: transparent; border-color: transparent; padding: 5px 8px; }
QToolBar QToolButton:hover { background: $raised; }
QToolBar QToolButton:checked { background: $selection; border-color: $accent; }
QToolBar QToolButton:focus { border-color: $accent; }
QStatusBar { background: $window; border-top: 1px solid $border; }
QStatusBar::item { border: none; }
QStatusBar QLabel { color: $muted; padding: 0 4px; }
QStatusBar QToolButton { background: transparent; border-color: transparent; padding: 2px 6px; }

QProgressBar { background: $raised; border: 1px solid $border; border-radius: 4px; height: 8px;
    text-align: center; }
QProgressBar::chunk { background: $accent; border-radius: 3px; }
QSplitter::handle { background: $border; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QSlider::groove:horizontal { height: 4px; background: $border; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $accent; border-radius: 2px; }
QSlider::handle:horizontal { background: $accent; width: 14px; margin: -5px 0; border-radius: 7px; }
QGroupBox { border: 1px solid $border; border-radius: 8px; margin-top: 11px; padding-top: 8px;
    background: transparent; }
QGroupBox::title { subcontrol-origin: margin; left: 12px; padding: 0 5px; color: $muted;
    font-weight: 600; }
QGroupBox:focus { border-color: $accent; }
QFrame#gameBorder[captured="true"] { border: 3px solid $accent; }
QFrame#gameBorder { border: 3px solid transparent; }
QFrame#toast { background: $raised; border: 1px solid $border; border-radius: 8px; }
QFrame#palette { background: $surface; border: 1px solid $accent; border-radius: 10px; }
"""
)


def stylesheet(theme: Theme, font_points: float, pictures: Mapping[str, str]) -> str:
    """The application's style sheet.

    Args:
        theme: The colours.
        font_points: The normal font size.
        pictures: Paths of the pictures `tick`, `arrow`, `ahead` and `back`.
    """
    colours = {name: value for name, value in vars(theme).items() if isinstance(value, str)}
    return _TEMPLATE.substitute(
        colours,
        font=f"{font_points:g}",
        font_title=f"{font_points * 1.6:g}",
        font_headline=f"{font_points * 1.25:g}",
        **pictures,
    )
