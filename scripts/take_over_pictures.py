"""A policy is watched and taken over, by mouse and key: the picture of the guide.

`make screenshots` runs it. It ends with an error if a click has not the effect that a person
expects.
"""

import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

from mouse import Mouse
from photographer import Photographer, take_pictures
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from gym_gui.models.launch import Launch
from gym_gui.models.train_draft import TrainDraft
from gym_gui.tabs.live_tab import LiveTab
from gym_gui.tabs.telemetry_tab import TelemetryTab

# Long enough that the pole stays up for a while.
_STEPS = 60_000
_LONG_S = 600.0


def act(camera: Photographer) -> None:
    """Train, watch, take over."""
    window, mouse = camera.window, Mouse(camera)
    camera.until(lambda: window.launch.actors and window.services.store.complete, "connected")
    draft = TrainDraft(run_name="balance", total_timesteps=_STEPS)
    window.runs.submit([Launch(config) for config in draft.configs()])
    runs = window.services.store.runs
    camera.until(lambda: any(run.completed for run in runs.values()), "trained", _LONG_S)
    run = next(iter(runs.values()))
    camera.show(run.run_id, "live", "watch")
    live = window.run_panel.tab("live")
    assert isinstance(live, LiveTab)
    mouse.click(live.take_over)
    tab = window.run_panel.tab("telemetry")
    assert isinstance(tab, TelemetryTab)
    session = tab.session
    camera.until(lambda: session.swap.isEnabled() and session.game.view.image, "it plays", _LONG_S)
    camera.spin(3)
    mouse.click(session.swap)
    camera.until(lambda: session.control == "person", "taken over")
    QTest.keyPress(session.game, Qt.Key.Key_Left)
    camera.spin(0.2)
    camera.shoot("take-over", wait_s=0)
    QTest.keyRelease(session.game, Qt.Key.Key_Left)
    mouse.click(session.swap)
    camera.until(lambda: session.control == "policy", "handed back")
    mouse.click(session.stop)
    camera.until(lambda: all(run.ended for run in runs.values()), "ended", _LONG_S)


if __name__ == "__main__":
    sys.exit(take_pictures(__file__, __doc__, act))
