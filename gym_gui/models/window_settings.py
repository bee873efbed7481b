"""The window's own settings: one declaration, from which the settings dialog is made."""

from dataclasses import dataclass

from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.models.stored import fields
from mosaic.config.declaring import changed, fit, setting
from mosaic.config.paths import Home


@dataclass(frozen=True)
class WindowSettings:
    """What a person may change about the window."""

    schema_version: int = 1
    theme: str = setting(
        "system",
        "Theme",
        "follow the system, or always light or dark",
        choices=("system", "light", "dark"),
    )
    font_points: float = setting(10.0, "Font size", "points", least=7, most=20)
    smoothing: float = setting(0.6, "Smoothing", "of new charts; 0 is none", least=0, most=0.999)
    chart_hz: int = setting(30, "Chart refresh", "most repaints per second", least=1, most=60)
    frame_hz: int = setting(30, "Live view refresh", "most frames per second", least=1, most=60)
    frame_source: str = setting(
        "automatic",
        "Live view source",
        "automatic: shared memory, or the network for a daemon elsewhere",
        choices=("automatic", "shared memory", "network"),
    )
    notify_system: bool = setting(
        True, "System notifications", "when a run ends and the window is in the background"
    )
    notify_command: str = setting(
        "",
        "Command when a run ends",
        "run with the run's id, name and outcome as arguments; empty: none",
    )
    tensorboard_idle_minutes: float = setting(
        10.0, "Stop TensorBoard after", "minutes unused", above=0
    )
    lock_docks: bool = setting(False, "Lock panels in place")


def load_window_settings(home: Home) -> tuple[WindowSettings, str]:
    """The settings, and a notice when the stored ones could not be used."""
    path = window_folder(home) / "settings.json"
    try:
        stored = fields(read_json(path) or {})
        # Names of another release are left alone: a window must open whatever wrote the file.
        values, wrong = fit(WindowSettings, stored)
        if wrong:
            raise ValueError(f"{wrong[0].name} {wrong[0].why}")
        return WindowSettings(**values), ""
    except (ValueError, TypeError, OSError) as error:
        reason = str(error).splitlines()[0]
        return (
            WindowSettings(),
            f"The window's settings could not be read ({reason}); using defaults",
        )


def save_window_settings(home: Home, settings: WindowSettings) -> None:
    """Store the settings."""
    write_json(window_folder(home) / "settings.json", changed(settings))
