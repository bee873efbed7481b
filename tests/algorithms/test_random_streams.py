"""What is random in a run is random on its own."""

from __future__ import annotations

import numpy as np
import pytest

from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.sampling import Random


@pytest.mark.parametrize("seed", [0, 1, 17])
def test_the_agent_does_not_draw_the_environments_numbers(seed: int) -> None:
    """With one seed for all, exploration would follow the environment's own noise: an agent that
    acts at random could be right every time."""
    envs = Envs("CartPole-v1", 2)
    envs.reset(seed=seed)
    for env in envs.envs:
        stream = env.unwrapped.np_random
        stream.bit_generator.state = np.random.PCG64(env.unwrapped.np_random_seed).state
        assert not np.array_equal(Random(seed).random(4), stream.random(4))
    envs.close()


def test_each_purpose_has_its_own_numbers() -> None:
    """The same seed gives the same numbers again, and other ones for another purpose."""
    np.testing.assert_array_equal(Random(3).random(4), Random(3).random(4))
    assert not np.array_equal(Random(3).random(4), Random(3, "games").random(4))
