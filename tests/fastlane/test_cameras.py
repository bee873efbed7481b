"""What a camera looks at."""

import gymnasium as gym
import pytest

from mosaic.fastlane.cameras import follow_what_moves


@pytest.mark.parametrize(
    ("env_id", "options", "follows"),
    [
        ("HalfCheetah-v5", {}, True),
        ("HalfCheetah-v5", {"camera_id": -1}, True),
        ("Reacher-v5", {}, False),
        ("CartPole-v1", {}, False),
    ],
    ids=["runs away", "free camera", "no such camera", "not MuJoCo"],
)
def test_a_body_that_runs_stays_in_the_picture(
    env_id: str, options: dict[str, int], follows: bool
) -> None:
    """The camera that the model has for it is used, unless the user asked for another."""
    pytest.importorskip("mujoco")
    env = gym.make(env_id, render_mode="rgb_array", disable_env_checker=True, **options)
    follow_what_moves(env.unwrapped)
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if follows:
        assert renderer.model.camera(renderer.camera_id).name == "track"
    else:
        assert getattr(renderer, "camera_id", -1) == -1
    env.close()
