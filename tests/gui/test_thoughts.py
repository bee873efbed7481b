"""What an agent thought, beside each step of a replay."""

import json
from typing import TYPE_CHECKING

from gym_gui.background.recordings import Picture, step_picture
from gym_gui.widgets.player import Player
from mosaic.records import StepRecord

if TYPE_CHECKING:
    from conftest import Driver


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
