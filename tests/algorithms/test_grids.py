"""Grid worlds: the quick observation is MiniGrid's own, the quick network is the plain one."""

from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import minigrid  # noqa: F401  (registers its environments)
import numpy as np
import pytest
import torch
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall
from minigrid.minigrid_env import MiniGridEnv
from torch import nn

from cleanrl_worker.agents.minigrid import MinigridAgent
from cleanrl_worker.kit.envs import make_env
from cleanrl_worker.kit.grid_view import GridView, quicken
from cleanrl_worker.kit.optim import Adam

# These read pictures that MiniGrid's package does not bring along.
_WITHOUT_FILES = "MiniGrid-WFC-"


def _assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    assert ours["direction"] == theirs["direction"]
    assert ours["mission"] == theirs["mission"]
    assert ours["image"].dtype == theirs["image"].dtype
    np.testing.assert_array_equal(ours["image"], theirs["image"])


def test_every_environment_gives_the_observations_of_the_library() -> None:
    """Side by side with MiniGrid itself, in every registered world of MiniGrid and BabyAI, all
    observations, rewards and ends of the same random actions agree byte for byte."""
    names = [name for name in gym.registry if name.startswith(("MiniGrid-", "BabyAI-"))]
    states = 0
    for name in sorted(names):
        if name.startswith(_WITHOUT_FILES):
            continue
        rng = np.random.default_rng(len(name))
        # BabyAI prints when it rejects a world it has drawn.
        with contextlib.redirect_stdout(io.StringIO()):
            ours = make_env(name)
            theirs = gym.make(name, disable_env_checker=True)
            assert isinstance(ours.unwrapped.gen_obs, GridView)
            _assert_same(ours.reset(seed=7)[0], theirs.reset(seed=7)[0])
            for action in rng.integers(ours.action_space.n, size=60).tolist():
                obs, *outcome, _ = ours.step(action)
                expected, *expected_outcome, _ = theirs.step(action)
                _assert_same(obs, expected)
                assert outcome == expected_outcome
                if outcome[1] or outcome[2]:
                    _assert_same(ours.reset()[0], theirs.reset()[0])
                states += 1
    assert states > 9000


def _random_thing(rng: np.random.Generator) -> Any:
    colour = ["red", "green", "blue", "purple", "yellow", "grey"][rng.integers(6)]
    kinds = [None, None, Wall, Floor, Ball, Key, Box, Door, Goal, Lava]
    kind = kinds[rng.integers(len(kinds))]
    if kind is None:
        return None
    if kind is Door:
        is_open = bool(rng.integers(2))
        return Door(colour, is_open, is_locked=not is_open and bool(rng.integers(2)))
    return kind() if kind in (Goal, Lava) else kind(colour)


@pytest.mark.parametrize("size", [3, 5, 7, 9])
@pytest.mark.parametrize("see_through", [False, True])
def test_any_state_of_any_grid_is_seen_as_the_library_sees_it(size: int, see_through: bool) -> None:
    """Random clutter, random places up to the very corner, things carried, doors and colours
    changed in place, views seen before: always the library's picture."""
    rng = np.random.default_rng(size)
    env = gym.make("MiniGrid-Empty-8x8-v0", agent_view_size=size).unwrapped
    env.reset(seed=1)
    env.see_through_walls = see_through
    view = GridView(env)
    for _ in range(12):
        width, height = (int(side) for side in rng.integers(3, 14, 2))
        env.grid = Grid(width, height)
        env.grid.grid = [_random_thing(rng) for _ in range(width * height)]
        for _ in range(60):
            env.agent_pos = (int(rng.integers(width)), int(rng.integers(height)))
            env.agent_dir = int(rng.integers(4))
            env.carrying = [None, Ball("red"), Key("blue")][rng.integers(3)]
            _assert_same(view(), MiniGridEnv.gen_obs(env))
            for thing in env.grid.grid:
                if isinstance(thing, Door):
                    thing.is_open = bool(rng.integers(2))
                elif isinstance(thing, Ball):
                    thing.color = ["red", "green"][rng.integers(2)]
            _assert_same(view(), MiniGridEnv.gen_obs(env))


def test_an_observation_belongs_to_whoever_got_it() -> None:
    """Writing into an observation changes neither the next one nor the world."""
    env = make_env("MiniGrid-Empty-5x5-v0")
    first = env.reset(seed=1)[0]["image"]
    kept = first.copy()
    first[:] = 77
    np.testing.assert_array_equal(env.step(6)[0]["image"], kept)


def test_pictures_are_the_library_s() -> None:
    """What is rendered, for videos and live frames, does not depend on the quick view."""
    ours = make_env("MiniGrid-DoorKey-8x8-v0", render_mode="rgb_array")
    theirs = gym.make("MiniGrid-DoorKey-8x8-v0", render_mode="rgb_array")
    ours.reset(seed=3), theirs.reset(seed=3)
    for action in (2, 0, 2, 1, 3, 5):
        ours.step(action), theirs.step(action)
        np.testing.assert_array_equal(ours.render(), theirs.render())


def test_a_world_with_a_view_of_its_own_keeps_it() -> None:
    """A subclass that defines what its agent sees is left alone."""

    class Blind(type(gym.make("MiniGrid-Empty-5x5-v0").unwrapped)):
        def gen_obs(self) -> dict[str, Any]:
            obs = super().gen_obs()
            obs["image"] = np.zeros_like(obs["image"])
            return obs

    env = Blind(size=5)
    quicken(env)
    assert not env.reset(seed=1)[0]["image"].any()


_SPACES = SimpleNamespace(
    single_observation_space=gym.spaces.Box(0, 255, (7, 7, 3), np.uint8),
    single_action_space=gym.spaces.Discrete(7),
)


def _views(env_id: str, count: int) -> torch.Tensor:
    rng, env = np.random.default_rng(0), make_env(env_id)
    env.reset(seed=1)
    views = []
    for _ in range(count):
        obs, _, terminated, truncated, _ = env.step(int(rng.integers(7)))
        views.append(obs["image"])
        if terminated or truncated:
            env.reset()
    return torch.from_numpy(np.stack(views))


def _largest(values: torch.Tensor) -> float:
    return float(values.detach().abs().max())


def _clutter(count: int) -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 256, (count, 7, 7, 3), dtype=np.uint8))


@pytest.mark.parametrize("where", ["MiniGrid-Empty-8x8-v0", "BabyAI-GoToLocal-v0", "anything"])
def test_the_quick_network_is_the_plain_one(where: str) -> None:
    """Outputs and all gradients agree with torch's own convolutions on every row, for views that
    repeat and for bytes that never do."""
    obs = _clutter(40) if where == "anything" else _views(where, 128)
    torch.manual_seed(1)
    agent = MinigridAgent(_SPACES)
    weights = torch.randn(len(obs), 7), torch.randn(len(obs))

    def gradients(logits: torch.Tensor, values: torch.Tensor) -> list[torch.Tensor]:
        agent.zero_grad()
        ((logits * weights[0]).sum() + (values * weights[1]).sum()).backward()
        return [parameter.grad.clone() for parameter in agent.parameters()]

    hidden = nn.Sequential.forward(agent.trunk, obs)
    expected = agent.actor(hidden), agent.critic(hidden).flatten()
    found = agent(obs)
    for ours, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4 * _largest(plain))
    for ours, plain in zip(gradients(*found), gradients(*expected), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-4 * _largest(plain))
    np.testing.assert_allclose(agent.actor(obs.numpy()), found[0].detach(), atol=1e-5)
    np.testing.assert_allclose(
        agent.critic(obs.numpy())[:, 0], found[1].detach(), rtol=1e-4, atol=1e-5
    )


def test_a_grid_is_judged_once_while_the_policy_stays() -> None:
    """Grids that came up before are answered from memory, in their order; an update forgets it."""
    agent = MinigridAgent(_SPACES)
    obs = _clutter(6)
    judged = []
    agent.trunk.register_forward_hook(lambda module, inputs, output: judged.append(len(output)))
    first = agent.actor(obs[:4].numpy())
    both = agent.actor(obs[[5, 1, 0, 4]].numpy())
    np.testing.assert_array_equal(both[[1, 2]], first[[1, 0]])
    assert judged == [4, 2]
    optimizer = Adam(agent.parameters(), 1e-2)
    agent(obs)[0].sum().backward()
    optimizer.step()
    assert not np.array_equal(agent.actor(obs[:4].numpy()), first)
