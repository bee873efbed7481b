"""Environments on the device are the environments they are named after."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest

from cleanrl_worker.games import PREFIX
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.batch import DeviceEnvs, ended_episodes
from cleanrl_worker.ondevice.environment import DeviceEnv, Transition

# How far 32 and 64 bits may drift apart in a whole episode. Acrobot is chaotic: there only single
# steps, each from the same state, are compared.
DRIFT = {
    "CartPole-v1": 1e-4,
    "MountainCar-v0": 1e-4,
    "MountainCarContinuous-v0": 1e-4,
    "Pendulum-v1": 2e-2,
}
# Those whose state a test can read and compare; ours and MuJoCo's have tests of their own.
CLASSIC = [name for name in sorted(registry.TWINS) if "classic_control" in registry.TWINS[name]]
RECALL = f"{PREFIX}Recall-v0"
MUJOCO = [name for name in sorted(registry.TWINS) if "mujoco_twins" in registry.TWINS[name]]


@dataclass
class Tape:
    """One episode of a Gymnasium environment: the states before each step, and what each gave."""

    states: list[Any] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    obs: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)


def _played(env: gym.Env, seed: int) -> Tape:
    env.reset(seed=seed)
    tape, over = Tape(), False
    while not over:
        # The first tape is constant: some environments only then end by themselves.
        action = env.action_space.sample() if seed else env.action_space.sample() * 0 + 1
        tape.states.append(np.array(env.unwrapped.state, np.float32))
        obs, reward, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        tape.actions.append(action)
        for values, value in zip(
            (tape.obs, tape.rewards, tape.terminated, tape.truncated),
            (obs, reward, terminated, truncated),
            strict=True,
        ):
            values.append(value)
    return tape


@pytest.mark.parametrize("env_id", CLASSIC)
def test_one_tape_of_actions_gives_the_same_episode(env_id: str) -> None:
    """Observation, reward, termination and truncation are Gymnasium's: for every step from the
    same state and, where rounding allows it, over whole episodes; also at the time limit."""
    theirs = gym.make(env_id)
    theirs.action_space.seed(0)
    tapes = [_played(theirs, seed) for seed in range(3)]
    theirs.close()
    envs = DeviceEnvs(env_id, 1)

    def joined(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(tape, name)) for tape in tapes])

    states, actions = joined("states"), joined("actions")
    keys = jax.random.split(jax.random.key(0), len(states))
    after = jax.jit(jax.vmap(envs.env.step))(states, actions, keys)
    np.testing.assert_allclose(after.obs, joined("obs"), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(after.reward, joined("rewards"), rtol=1e-4, atol=2e-5)
    same = np.broadcast_to(after.terminated, len(states)) == joined("terminated")
    assert same.all()
    if env_id in DRIFT:
        _assert_same_without_help(envs, tapes, DRIFT[env_id])
    assert envs.env.action_space == theirs.action_space
    np.testing.assert_allclose(envs.env.observation_space.low, theirs.observation_space.low)
    np.testing.assert_allclose(envs.env.observation_space.high, theirs.observation_space.high)


def _assert_same_without_help(envs: DeviceEnvs, tapes: list[Tape], drift: float) -> None:
    limit = envs.env.time_limit
    assert limit is not None

    @jax.jit
    def play(state: Any, actions: Any) -> Any:
        games = envs.reset(jax.random.key(0))._replace(states=state[None])
        draws = envs.draws(jax.random.key(1), limit)
        return jax.lax.scan(lambda g, now: envs.step(g, now[0][None], now[1]), games,
                            (actions, draws))[1]  # fmt: skip

    for tape in tapes:
        length = len(tape.actions)
        actions = np.zeros((limit, *np.shape(tape.actions[0])), np.asarray(tape.actions).dtype)
        actions[:length] = tape.actions
        outcome = play(tape.states[0], actions)
        np.testing.assert_allclose(outcome.next_obs[:length, 0], tape.obs, atol=drift)
        np.testing.assert_array_equal(outcome.terminated[:length, 0], tape.terminated)
        np.testing.assert_array_equal(outcome.truncated[:length, 0], tape.truncated)
        assert outcome.lengths[length - 1, 0] == length


@pytest.mark.parametrize("env_id", CLASSIC)
def test_episodes_begin_where_gymnasiums_begin(env_id: str) -> None:
    """First observations have the same range and mean, over a thousand episodes."""
    envs = DeviceEnvs(env_id, 1000)
    ours = np.asarray(envs.reset(jax.random.key(3)).obs)
    theirs = gym.make(env_id)
    wanted = np.stack([theirs.reset(seed=seed)[0] for seed in range(1000)])
    theirs.close()
    spread = wanted.std(axis=0) + 1e-6
    np.testing.assert_array_less(np.abs(ours.mean(0) - wanted.mean(0)), 0.15 * spread + 1e-6)
    for edge in (np.min, np.max):
        np.testing.assert_allclose(edge(ours, axis=0), edge(wanted, axis=0), atol=0.02, rtol=0.05)


def test_recall_is_the_game_of_that_name() -> None:
    """Both cues and walks of every kind, also one that is cut off: what is seen and paid is what
    the game shows and pays."""
    theirs, envs = gym.make(RECALL), DeviceEnvs(RECALL, 1)
    assert envs.env.action_space == theirs.action_space
    assert envs.env.observation_space == theirs.observation_space
    begin, step = jax.jit(envs.reset), jax.jit(envs.step)
    draw = jax.tree.map(lambda part: part[0], envs.draws(jax.random.key(1), 1))
    first = {float(begin(jax.random.key(seed)).obs[0, 1]): seed for seed in range(20)}
    rng, ends = np.random.default_rng(0), set()
    for number in range(12):
        obs, _ = theirs.reset(seed=number)
        games, over, turn = begin(jax.random.key(first[float(obs[1])])), False, 0
        while not over:
            np.testing.assert_allclose(games.obs[0], obs)
            # The first walks lead nowhere: to and fro until they are cut off.
            action = turn % 2 if number < 2 else int(rng.integers(2))
            games, outcome = step(games, np.array([action]), draw)
            obs, reward, terminated, truncated, _ = theirs.step(action)
            np.testing.assert_allclose(outcome.next_obs[0], obs)
            given = outcome.rewards[0], outcome.terminated[0], outcome.truncated[0]
            assert tuple(map(float, given)) == (reward, terminated, truncated)
            over, turn = terminated or truncated, turn + 1
        ends.add((reward, truncated))
    assert ends == {(0.0, True), (1.0, False), (-1.0, False)}
    theirs.close()


class Countdown(DeviceEnv):
    """Ends after three steps by itself, and is cut off after five if it has not."""

    observation_space = gym.spaces.Box(0, 9, (1, 2), np.float32)
    action_space = gym.spaces.Discrete(2)
    time_limit = 5

    def reset(self, key: Any) -> tuple[Any, Any]:
        """Begin at zero."""
        zero = jax.numpy.float32(0)
        return zero, self._look(zero)

    def step(self, state: Any, action: Any, key: Any) -> Transition:
        """Action 1 counts, action 0 waits."""
        state += action
        return Transition(state, self._look(state), state, state >= 3, np.bool_(False))

    @staticmethod
    def _look(state: Any) -> Any:
        return jax.numpy.full((1, 2), state)


def test_a_users_own_environment_is_stepped_reset_and_summed_up() -> None:
    """The step that ends an episode shows its true last observation, and the next one begins in
    the same step; returns and lengths are those of whole episodes, however they ended."""
    registry.register("test/Countdown-v0", Countdown)
    envs = DeviceEnvs("test/Countdown-v0", 2)
    assert envs.single_observation_space.shape == (2,), "other shapes become flat"
    actions = np.array([1, 0])
    games, whole = jax.lax.scan(
        lambda games, draw: envs.step(games, actions, draw),
        envs.reset(jax.random.key(0)),
        envs.draws(jax.random.key(1), 5),
    )
    np.testing.assert_array_equal(whole.terminated[:, 0], [0, 0, 1, 0, 0])
    np.testing.assert_array_equal(whole.truncated[:, 1], [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(whole.next_obs[:, 0, 0], [1, 2, 3, 1, 2])
    assert games.obs[0, 0] == 2
    assert games.obs[1, 0] == 0
    ended = {name: np.asarray(value) for name, value in ended_episodes(whole).items()}
    assert ended["count"] == 2
    assert ended["returns"][-2:].tolist() == [6.0, 0.0]
    assert ended["lengths"][-2:].tolist() == [3, 5]


def test_an_unknown_environment_is_refused_with_those_there_are() -> None:
    """The sentence names the nearest one, and algorithms that need no JAX environment."""
    with pytest.raises(UsageError, match="nearest one is 'CartPole-v1'") as refused:
        DeviceEnvs("CartPol-v1", 1)
    assert "Pendulum-v1" in str(refused.value)
    assert "without _ondevice" in str(refused.value)


def test_names_are_known_without_jax() -> None:
    """The daemon checks a run's environment and never pays for JAX."""
    program = (
        "import sys; from cleanrl_worker.ondevice import registry; "
        "assert not registry.problem('CartPole-v1') and registry.problem('LunarLander-v3'); "
        "assert 'jax' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.prove
@pytest.mark.timeout(1800)  # compiling a physics engine takes minutes on a busy processor
@pytest.mark.parametrize("env_id", MUJOCO)
def test_bodies_move_as_in_mujoco(env_id: str) -> None:
    """A step from the same state gives MuJoCo's observation, reward and end of the episode, to the
    digits that 32 bits hold; episodes begin as there, and the live view shows the same pose."""
    theirs = gym.make(env_id)
    task: Any = theirs.unwrapped
    theirs.action_space.seed(0)
    first, _ = theirs.reset(seed=0)
    bodies, actions, told = [], [], []
    for _ in range(300):
        action = theirs.action_space.sample()
        data = task.data
        bodies.append((data.qpos.copy(), data.qvel.copy(), data.qacc_warmstart.copy()))
        obs, reward, terminated, truncated, _ = theirs.step(action)
        actions.append(action)
        told.append((obs, reward, terminated))
        if terminated or truncated:
            theirs.reset()
    env = registry.make(env_id)
    state = type(env.reset(jax.random.key(0))[0])(
        *(np.asarray(part, np.float32) for part in zip(*bodies, strict=True))
    )
    after = jax.jit(jax.vmap(lambda s, a: env.step(s, a, None)))(state, np.asarray(actions))
    obs, rewards, ends = (np.asarray(part) for part in zip(*told, strict=True))
    np.testing.assert_allclose(after.obs, obs, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(after.reward, rewards, rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(np.broadcast_to(after.terminated, len(ends)), ends)
    assert ends.any() == (env_id in ("Hopper-v5", "Walker2d-v5"))

    begun = np.asarray(
        jax.vmap(lambda key: env.reset(key)[1])(jax.random.split(jax.random.key(1), 500))
    )
    wanted = np.stack([theirs.reset(seed=seed)[0] for seed in range(500)])
    assert begun.shape[1:] == first.shape
    np.testing.assert_allclose(begun.mean(axis=0), wanted.mean(axis=0), atol=env.noise / 5)
    np.testing.assert_allclose(begun.std(axis=0), wanted.std(axis=0), atol=env.noise / 5)

    env.pose(task, jax.tree.map(lambda part: part[-1], after.state))
    np.testing.assert_allclose(task.data.qpos, after.state.qpos[-1], atol=1e-6)
    theirs.close()


def test_a_task_without_its_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MuJoCo task on the device says what to install, before anything is trained."""
    monkeypatch.setattr(registry, "_is_installed", lambda package: False)
    for env_id in MUJOCO:
        assert "install_extras --set mjx" in registry.problem(env_id)
    assert registry.problem("CartPole-v1") == ""
