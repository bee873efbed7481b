"""CartPole that writes down when it was first stepped and when a given step was reached.

`gymnasium.make("first_step:FirstStep-v0")`, with the file named by FIRST_STEP_FILE and the step by
FIRST_STEP_MARK. The clock is the monotonic one, which all processes of a machine share.
"""

import json
import os
import time
from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

_moments: list[dict[str, float]] = []


class FirstStep(CartPoleEnv):
    """The first environment of its process keeps the time; the others only run."""

    _keeper: "FirstStep | None" = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._steps = 0
        self._mark = int(os.environ.get("FIRST_STEP_MARK", "0"))

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if FirstStep._keeper is None:
            FirstStep._keeper = self
        if FirstStep._keeper is self:
            self._steps += 1
            if self._steps in (1, self._mark):
                self._note()
        return result

    def _note(self) -> None:
        moment = {"wall": time.monotonic(), "cpu": time.process_time()}
        _moments.append(moment)
        path = os.environ["FIRST_STEP_FILE"]
        with open(f"{path}.new", "w") as handle:
            json.dump(_moments, handle)
        os.replace(f"{path}.new", path)


gym.register("FirstStep-v0", entry_point="first_step:FirstStep", max_episode_steps=500)
