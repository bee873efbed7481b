"""What an agent thought, beside each step of a replay."""

import json
from typing import TYPE_CHECKING

from gym_gui.background.recordings import Picture, step_picture
from gym_gui.widgets.player import Player
from mosaic.presenting.run_status import is_real
from mosaic.records import StepRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Driver
    from support.trainer import Trainer


def _step(number: int, info: dict[str, object]) -> Picture:
    record = StepRecord(
        seq=number + 1,
        episode=0,
        step=number,
        observation_json="",
        action_json="0",
        reward=0.0,
        terminated=False,
        truncated=False,
        info_json=json.dumps(info),
        frame_ref="",
        frame=b"",
        at=0.0,
        agent_id="",
    )
    return step_picture(record)


def test_the_slider_moves_through_the_thoughts(driver: "Driver") -> None:
    """Each step shows its own decision, reason and text; another recording forgets them."""
    player = Player(driver.services.themes)
    player.show()
    thoughts: list[dict[str, object]] = [
        {"decision": "turn left", "intention": "the ball 2 left", "beliefs": ["Goal: ball"]},
        {"decision": "go forward", "intention": "the ball 2 forward", "beliefs": ["Goal: ball"]},
    ]
    player.load([_step(number, info) for number, info in enumerate(thoughts)], 15)
    assert player.mind.isVisible()
    assert player.mind.beliefs.item(0).text() == "• Goal: ball"
    player.step(1)
    assert "the ball 2 forward" in player.mind.intention
    assert player.mind.beliefs.item(0).text() == "   Goal: ball"
    player.load([_step(0, {})], 15)
    assert not player.mind.isVisible()
    player.close()
    player.deleteLater()


def test_a_language_model_is_started_from_its_form_and_watched(
    trainer: "Trainer", open_window: "Callable[..., Driver]"
) -> None:
    """The roster's entry works: its form starts a run whose thoughts are shown live and again."""
    driver = open_window(trainer.home)
    driver.connected()
    form = driver.window.launch.show_form("train", "llm")
    driver.until(lambda: form.described == "llm", "the form knows the settings")
    form.parameters.editor("episodes").set_value(2)
    form.submit()
    runs = driver.services.store.runs
    # Until the daemon answers, a placeholder is listed.
    driver.until(lambda: [run for run in runs.values() if is_real(run)], "the run is listed")
    (run_id,) = [run.run_id for run in runs.values() if is_real(run)]
    driver.reaches(run_id, "TERM")
    assert driver.run(run_id).outcome == "completed"
    driver.window.runs_panel.show_run(run_id)
    panel = driver.window.run_panel
    panel.open_tab("telemetry")
    live = panel.tab("telemetry")
    driver.until(lambda: live.mind.isVisible(), "the thoughts are beside the board")
    panel.open_tab("replay")
    replay = panel.tab("replay")
    driver.until(lambda: replay.player.length > 1, "the first episode is loaded")
    assert replay.player.mind.isVisible()
    first = replay.player.mind.intention
    replay.player.step(replay.player.length - 1)
    assert replay.player.mind.intention != first
    assert "forward" in replay.player.mind.intention
