"""What a script sees of its environments does not depend on who watches them."""

import copy
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs import registration
from gymnasium.wrappers import TimeLimit
from support.colour_world import COLOURS, ColourWorld
from support.frames import colour_at, until

from cleanrl_worker.fastlane import FrameTap, Settings, activate, render_from_state, untapped
from mosaic.fastlane import Frame, FrameReader

ENVIRONMENTS = [
    "CartPole-v1",
    "LunarLander-v3",
    "FrozenLake-v1",
    "MiniGrid-Empty-8x8-v0",
    "ALE/Breakout-v5",
    "ColourWorld-v0",
]


@pytest.fixture(autouse=True)
def tapped(run_id: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gymnasium as a training process has it."""
    import ale_py
    import minigrid

    gym.register_envs(ale_py)
    gym.register_envs(minigrid)
    monkeypatch.setenv("MOSAIC_RUN_ID", run_id)
    monkeypatch.setenv("CLEANRL_FASTLANE_SHARE", "1")
    monkeypatch.setenv("CLEANRL_FASTLANE_INTERVAL_MS", "1")
    for name in ("PYTHONPATH", "MUJOCO_GL", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        # Set and taken away again, so that what the process puts there is undone afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SDL_NO_SIGNAL_HANDLERS", "1")
    kept = gym.make, gym.make_vec
    activate({})
    yield
    for module in (gym, registration):
        module.make, module.make_vec = kept


def play(env: gym.Env, steps: int, reader: FrameReader | None = None) -> list[Any]:
    """Step with seeded random actions and return everything that comes back."""
    env.action_space.seed(3)
    story: list[Any] = [env.reset(seed=5)[0]]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        story.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            story.append(env.reset()[0])
        if reader is not None:
            reader.read()
    return story


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_watching_changes_nothing(env_id: str, run_id: str) -> None:
    """Observations, rewards, ends, random streams, spaces, types and specs are the same."""
    with untapped():
        plain = gym.make(env_id)
    shown = gym.make(env_id)
    with FrameReader(run_id) as reader:
        shown.reset()
        step_until_seen(shown, reader)
        assert pickle.dumps(play(shown, 300, reader)) == pickle.dumps(play(plain, 300))
        assert shown.np_random.bit_generator.state == plain.np_random.bit_generator.state
        shown.close()
    assert type(shown) is type(plain) or not isinstance(plain, TimeLimit)
    assert shown.render_mode is plain.render_mode is None
    assert shown.observation_space == plain.observation_space
    assert shown.action_space == plain.action_space
    assert shown.spec == plain.spec
    plain.close()


def step_until_seen(
    env: gym.Env, reader: FrameReader, accept: Callable[[Frame], bool] = lambda frame: True
) -> Frame:
    """Step an environment until a frame comes that is accepted."""
    seen: list[Frame] = []

    def step() -> bool:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
        frame = reader.read()
        if frame is not None and accept(frame):
            seen.append(frame)
        return bool(seen)

    until(step)
    return seen[0]


def test_stepping_before_reset_is_still_an_error() -> None:
    """The wrapper whose place the tap takes did one thing, and the tap does it too."""
    env = gym.make("CartPole-v1")
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.close()


def test_a_script_that_renders_itself_gets_its_own_pictures(run_id: str) -> None:
    """`render_mode="rgb_array"` asked for by the script works as ever."""
    env = gym.make("ColourWorld-v0", render_mode="rgb_array")
    env.reset(seed=1)
    with FrameReader(run_id) as reader:
        step_until_seen(env, reader)
        assert env.render_mode == "rgb_array"
        assert env.render().shape == (20, 30, 3)
        env.close()


def test_nothing_is_rendered_while_nobody_watches() -> None:
    """An unwatched environment is never asked for a picture."""
    env = gym.make("ColourWorld-v0")
    play(env, 2000)
    base = env.unwrapped
    assert isinstance(base, ColourWorld)
    assert base.renders == 0
    env.close()


def test_copies_and_pickles_step_on_their_own(run_id: str) -> None:
    """A copied environment is a copy: stepping it moves neither the original nor its view."""
    env = gym.make("CartPole-v1")
    env.reset(seed=1)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        before = np.array(env.unwrapped.state)
        twin.step(0)
        assert np.array_equal(before, env.unwrapped.state)
        twin.close()
    env.step(0)
    with FrameReader(run_id) as reader:
        step_until_seen(env, reader)
        env.close()


def test_n12_a_forked_child_does_not_end_its_parents_view(run_id: str) -> None:
    """A child that inherits a shown environment and closes it takes nothing from the parent."""
    env = gym.make("ColourWorld-v0")
    env.reset(seed=1)
    with FrameReader(run_id) as reader:
        step_until_seen(env, reader)
        child = os.fork()
        if child == 0:
            env.step(0)
            env.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        frame = step_until_seen(env, reader)
        assert frame.writer_pid == os.getpid()
        assert reader.alive
        env.close()


def test_an_environment_that_stands_still_gives_way(run_id: str) -> None:
    """After training has stopped stepping its environment, the one of the evaluation is shown."""
    training = gym.make("ColourWorld-v0", number=0)
    evaluation = gym.make("ColourWorld-v0", number=1)
    with FrameReader(run_id) as reader:
        training.reset(seed=1)
        step_until_seen(training, reader)
        evaluation.reset(seed=1)
        step_until_seen(evaluation, reader, lambda frame: colour_at(frame, 10, 15) == COLOURS[1])
        training.close()
        evaluation.close()


def test_a_loop_of_our_own_shows_a_list_of_environments(run_id: str) -> None:
    """A tap shows the environments of a hand-written vector, and the returns it is told."""
    with untapped():
        envs = [gym.make("ColourWorld-v0", number=number) for number in range(3)]
    tap = FrameTap(envs, num_envs=3, settings=Settings(run_id, mode="grid", share=1.0))
    for env in envs:
        env.reset(seed=1)
    tap.episode(8.0)
    with FrameReader(run_id) as reader:
        frame = None
        while frame is None:
            tap.step(np.array([0.5, 1.0, 1.5]))
            frame = reader.wait(0.005)
        tap.close()
    assert frame.pixels.shape == (40, 60, 3)
    assert colour_at(frame, 30, 15) == COLOURS[2]
    assert (frame.last_reward, frame.rolling_return) == (0.5, 8.0)


def test_a_loop_of_our_own_can_draw_from_a_state(run_id: str) -> None:
    """A simulation without pictures is drawn by the environment that it copies."""
    state = np.array([0.0, 0.0, 0.1, 0.0])
    tap = FrameTap(
        render_from_state("CartPole-v1", lambda: state), settings=Settings(run_id, share=1.0)
    )
    with FrameReader(run_id) as reader:
        frame = None
        while frame is None:
            tap.step(1.0)
            frame = reader.wait(0.005)
        tap.close()
    assert frame.pixels.shape == (400, 600, 3)
    assert frame.pixels.std() > 0


def test_without_a_run_a_tap_does_nothing(monkeypatch: pytest.MonkeyPatch, run_id: str) -> None:
    """An algorithm file that runs alone has no view, and needs no condition for it."""
    monkeypatch.delenv("MOSAIC_RUN_ID")
    tap = FrameTap(lambda: pytest.fail("rendered for nobody"))
    for _ in range(1000):
        tap.step(1.0)
    tap.close()
