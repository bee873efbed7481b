"""Environments of other packages on the device are what these packages step themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.phys2d.pendulum import PendulumFunctional
from gymnasium.envs.tabular.blackjack import BlackjackFunctional
from gymnasium.envs.tabular.cliffwalking import CliffWalkingFunctional

from cleanrl_worker import get_worker_metadata
from cleanrl_worker.kit.envs import make_env
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.batch import DeviceEnvs
from cleanrl_worker.ondevice.package_ids import PACKAGES, kinds_of, package_ids
from mosaic.workers.facts import EnvironmentFacts
from mosaic.workers.fitting import misfit

# Compiling a physics engine takes minutes on a busy processor.
pytestmark = pytest.mark.timeout(1800)
STEPS = 40
# What one step of the package's own gave: all numbers of the observation, reward, whether it ended.
Seen = tuple[np.ndarray, float, bool]


def _xminigrid(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Seen]]:
    import xminigrid

    env, params = xminigrid.make(name)
    reset, step = (
        jax.jit(lambda key: env.reset(params, key)),
        jax.jit(lambda now, action, key: env.step(params, now, action)),
    )
    return reset, step, lambda now: (now.observation, float(now.reward), bool(now.last()))


def _pgx(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Seen]]:
    import pgx

    env = pgx.make(name)
    return (
        jax.jit(env.init),
        jax.jit(env.step),
        lambda now: (now.observation, float(now.rewards[0]), bool(now.terminated)),
    )


def _jumanji(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Seen]]:
    import jumanji

    env = jumanji.make(name)

    def seen(now: Any) -> Seen:
        leaves = [np.ravel(part) for part in jax.tree.leaves(now[1].observation)]
        return np.concatenate(leaves), float(now[1].reward), bool(now[1].last())

    return jax.jit(env.reset), jax.jit(lambda now, action, key: env.step(now[0], action)), seen


def _brax(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Seen]]:
    from cleanrl_worker.ondevice.brax_bodies import envs, quiet

    with quiet():
        env = envs.get_environment(name)

    @jax.jit
    def reset(key: Any) -> Any:
        with quiet():
            return env.reset(key)

    @jax.jit
    def step(now: Any, action: Any, key: Any) -> Any:
        with quiet():
            return env.step(now, action)

    return (
        reset,
        step,
        lambda now: (now.obs, float(now.reward), bool(now.done)),
    )


def _functional(env_id: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Seen]]:
    func: Any = FUNCTIONS[env_id]()

    def first(key: Any) -> Any:
        state = func.initial(key)
        return state, func.observation(state, key), jnp.float32(0), jnp.bool_(False)

    def step(now: Any, action: Any, key: Any) -> Any:
        action = jnp.reshape(action, func.action_space.shape)
        after = func.transition(now[0], action, key)
        reward = func.reward(now[0], action, after, key)
        return after, func.observation(after, key), reward, func.terminal(after, key)

    return (
        jax.jit(first),
        jax.jit(step),
        lambda now: (
            np.concatenate([np.ravel(part) for part in jax.tree.leaves(now[1])]),
            float(now[2]),
            bool(now[3]),
        ),
    )


FUNCTIONS = {
    "phys2d/Pendulum-v0": PendulumFunctional,
    "tabular/Blackjack-v0": BlackjackFunctional,
    "tabular/CliffWalking-v0": CliffWalkingFunctional,
}
OWN = {"xminigrid": _xminigrid, "pgx": _pgx, "jumanji": _jumanji, "brax": _brax}
# Compiled in a second or two; physics engines and large worlds are for `make prove`.
QUICK = ["tabular/CliffWalking-v0", "phys2d/Pendulum-v0"]
SLOW = [
    *("pgx/minatar-breakout", "pgx/2048", "xminigrid/MiniGrid-Empty-5x5", "jumanji/Snake-v1"),
    *("brax/inverted_pendulum", "tabular/Blackjack-v0"),
]


def _theirs(env_id: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Seen]]:
    prefix, _, name = env_id.partition("/")
    return OWN[prefix](name) if prefix in OWN else _functional(env_id)


@pytest.mark.parametrize(
    "env_id", [*QUICK, *(pytest.param(one, marks=pytest.mark.prove) for one in SLOW)]
)
def test_steps_are_the_packages_own(env_id: str) -> None:
    """From the same key and with the same actions observation, reward and end are those of the
    package; an episode that ends begins again in the same step, after its true last observation."""
    envs = DeviceEnvs(env_id, 1)
    reset, step, seen = _theirs(env_id)
    env = envs.env
    key = jax.random.PRNGKey(5)
    # As the batch splits a key for its one environment.
    now = reset(jax.random.split(key, 1)[0])
    games = jax.jit(envs.reset)(key)
    draws = jax.jit(envs.draws, static_argnums=1)(jax.random.PRNGKey(6), STEPS)
    ours = jax.jit(envs.step)
    env.action_space.seed(1)
    ended = False
    np.testing.assert_allclose(games.obs[0], _flat(env_id, seen(now)[0]), rtol=1e-5)
    for turn in range(STEPS):
        action = np.asarray(env.action_space.sample())
        draw = jax.tree.map(lambda part, turn=turn: part[turn], draws)
        games, out = ours(games, action[None], draw)
        now = step(now, action, draw.steps[0])
        obs, reward, over = seen(now)
        np.testing.assert_allclose(out.next_obs[0], _flat(env_id, obs), rtol=1e-4, atol=1e-5)
        assert float(out.rewards[0]) == pytest.approx(reward, rel=1e-5)
        assert bool(out.terminated[0] | out.truncated[0]) == over
        assert not (out.terminated[0] and out.truncated[0])
        if over:
            ended = True
            assert games.lengths[0] == 0
            now = reset(jax.random.split(draw.resets, 1)[0])
            np.testing.assert_allclose(games.obs[0], _flat(env_id, seen(now)[0]), rtol=1e-5)
    assert ended or env_id in ("phys2d/Pendulum-v0", "tabular/CliffWalking-v0", "pgx/2048",
                               "xminigrid/MiniGrid-Empty-5x5", "brax/inverted_pendulum",
                               "pgx/minatar-breakout", "jumanji/Snake-v1")  # fmt: skip


def _flat(env_id: str, obs: Any) -> np.ndarray:
    """What the package shows as the adapter shows it."""
    cells = np.asarray(obs)
    if env_id.startswith("xminigrid/"):
        from xminigrid.core.constants import NUM_COLORS, NUM_TILES

        tiles, colours = np.eye(NUM_TILES)[cells[..., 0]], np.eye(NUM_COLORS)[cells[..., 1]]
        cells = np.concatenate([tiles, colours], axis=-1)
    return cells.astype(np.float32).ravel()


@pytest.mark.prove
def test_a_board_game_is_played_against_a_random_player() -> None:
    """It is always the agent's turn, every game ends, and its return is won, drawn or lost."""
    envs = DeviceEnvs("pgx/tic_tac_toe", 8)

    def turn(games: Any, draw: Any) -> Any:
        # The first free cell: a legal move.
        actions = games.states.legal_action_mask.argmax(axis=1)
        games, out = envs.step(games, actions, draw)
        return games, (out, games.states.current_player)

    games = envs.reset(jax.random.PRNGKey(0))
    draws = envs.draws(jax.random.PRNGKey(1), 30)
    _, (out, players) = jax.jit(lambda g, d: jax.lax.scan(turn, g, d))(games, draws)
    over = np.asarray(out.terminated)
    assert over.sum() >= 8 * 5
    assert not out.truncated.any()
    assert set(np.unique(np.asarray(out.returns)[over])) == {-1.0, 0.0, 1.0}
    assert (np.asarray(players)[~over] == 0).all()


@pytest.fixture
def own_registry() -> Iterator[None]:
    """What a test registers in Gymnasium is forgotten after it."""
    before = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(before)


@pytest.mark.parametrize(
    "env_id",
    [
        "tabular/CliffWalking-v0",
        *(
            pytest.param(one, marks=pytest.mark.prove)
            for one in ("pgx/minatar-breakout", "xminigrid/MiniGrid-Empty-5x5", "brax/hopper",
                        "jumanji/Snake-v1")
        ),
    ],
)  # fmt: skip
def test_gymnasium_makes_them_too(env_id: str, own_registry: None) -> None:
    """Evaluations and other algorithms act in them by the same id: the same seed gives the same
    episode, the time limit is the package's, and what has pictures shows them."""
    first, second = (make_env(env_id, render_mode="rgb_array") for _ in range(2))
    first.action_space.seed(0)
    np.testing.assert_array_equal(first.reset(seed=3)[0], second.reset(seed=3)[0])
    for _ in range(3):
        action = first.action_space.sample()
        one, two = first.step(action), second.step(action)
        np.testing.assert_array_equal(one[0], two[0])
        assert first.observation_space.contains(one[0])
    picture, env = first.render(), registry.make(env_id)
    if env.draws:
        assert isinstance(picture, np.ndarray)
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert picture.any()
    else:
        assert picture is None
    assert first.spec is not None
    assert first.spec.max_episode_steps == env.time_limit
    for game in (first, second):
        game.close()


def test_ids_and_kinds_are_known_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id whose package is missing is refused with the command that installs it."""
    monkeypatch.setattr(registry, "_is_installed", lambda package: False)
    for env_id in package_ids():
        package = PACKAGES[env_id.partition("/")[0]]
        assert f"--set {package.requirement_set}" in registry.problem(env_id)
        assert kinds_of(env_id)[1] == "vector"
    assert "nearest one is 'xminigrid/MiniGrid-Empty-8x8'" in registry.problem(
        "xminigrid/MiniGrid-Empty-8x9"
    )


def test_the_daemon_accepts_runs_in_every_package() -> None:
    """What the list offers is not refused when it is submitted: the worker has these families."""
    worker = get_worker_metadata()
    for env_id in package_ids():
        actions, observations = kinds_of(env_id)
        offered = EnvironmentFacts(
            id=env_id,
            family=env_id.partition("/")[0],
            actions=actions,
            observations=observations,
        )
        assert misfit(worker, offered) == ""
