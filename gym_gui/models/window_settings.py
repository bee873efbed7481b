"""The window's own settings: one schema from which the settings dialog is made."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym_gui.background.storage import read_json, window_folder, write_json
from mosaic.config.paths import Home


class WindowSettings(BaseModel):
    """What a person may change about the window."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: int = 1
    theme: Annotated[
        Literal["system", "light", "dark"],
        Field(title="Theme", description="follow the system, or always light or dark"),
    ] = "system"
    font_points: Annotated[float, Field(ge=7, le=20, title="Font size", description="points")] = 10
    smoothing: Annotated[
        float, Field(ge=0, le=0.999, title="Smoothing", description="of new charts; 0 is none")
    ] = 0.6
    chart_hz: Annotated[
        int, Field(ge=1, le=60, title="Chart refresh", description="most repaints per second")
    ] = 30
    frame_hz: Annotated[
        int, Field(ge=1, le=60, title="Live view refresh", description="most frames per second")
    ] = 30
    frame_source: Annotated[
        Literal["automatic", "shared memory", "network"],
        Field(
            title="Live view source",
            description="automatic: shared memory, or the network for a daemon elsewhere",
        ),
    ] = "automatic"
    notify_system: Annotated[
        bool,
        Field(
            title="System notifications",
            description="when a run ends and the window is in the background",
        ),
    ] = True
    notify_command: Annotated[
        str,
        Field(
            title="Command when a run ends",
            description="run with the run's id, name and outcome as arguments; empty: none",
        ),
    ] = ""
    tensorboard_idle_minutes: Annotated[
        float, Field(gt=0, title="Stop TensorBoard after", description="minutes unused")
    ] = 10.0
    lock_docks: Annotated[bool, Field(title="Lock panels in place")] = False


def load_window_settings(home: Home) -> tuple[WindowSettings, str]:
    """The settings, and a notice when the stored ones could not be used."""
    path = window_folder(home) / "settings.json"
    try:
        stored: Any = read_json(path)
        return WindowSettings.model_validate(stored or {}), ""
    except (ValueError, ValidationError, OSError) as error:
        reason = str(error).splitlines()[0]
        return (
            WindowSettings(),
            f"The window's settings could not be read ({reason}); using defaults",
        )


def save_window_settings(home: Home, settings: WindowSettings) -> None:
    """Store the settings."""
    write_json(window_folder(home) / "settings.json", settings.model_dump(exclude_defaults=True))
