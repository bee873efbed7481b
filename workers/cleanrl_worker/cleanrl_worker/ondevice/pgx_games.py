"""Games of pgx (`pgx/…`): MinAtar and 2048 alone, board and card games against a random player.

Board games have two players. Here the agent is one of them, and the other plays a legal move at
random, so that any algorithm can learn them. An illegal move ends the game with the loss of a
point, as the package has it.
"""

from __future__ import annotations

import colorsys

import numpy as np
import pgx
from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import Array
from cleanrl_worker.ondevice.adapting import SOME_KEY, same_types
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition

# Some MinAtar games continue for as long as the agent does not lose.
_LONGEST_MINATAR = 10_000
_PIXELS = 24
_SMALL = ("2048", "tic_tac_toe", "connect_four", "kuhn_poker", "leduc_holdem")
AGENT = 0


class Game(DeviceEnv):
    """One game. The state is the package's own."""

    def __init__(self, name: str) -> None:
        self._env = pgx.make(name)
        alone = self._env.num_players == 1
        self._begin = self._env.init if alone else self._answered_init
        self._play = self._env.step if alone else self._answered_step
        first = jax.eval_shape(self._env.init, SOME_KEY)
        shape = first.observation.shape
        bits = first.observation.dtype == bool
        low, high = (0.0, 1.0) if bits else (-np.inf, np.inf)
        self.observation_space = spaces.Box(low, high, shape, np.float32)
        self.action_space = spaces.Discrete(int(first.legal_action_mask.shape[0]))
        minatar = name.startswith("minatar-")
        self.draws = minatar
        self.time_limit = _LONGEST_MINATAR if minatar else None
        self.large = not minatar and name not in _SMALL

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """A new game; the other player may begin it."""
        state = self._begin(key)
        return state, state.observation.astype(jnp.float32)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """One move, and the other player's answer."""
        after = same_types(self._play(state, action, key), state)
        return Transition(
            after,
            after.observation.astype(jnp.float32),
            after.rewards[AGENT].astype(jnp.float32),
            after.terminated,
            after.truncated,
        )

    def draw(self, state: State) -> Array:
        """MinAtar's ten by ten cells, with a colour for each of its channels."""
        cells = np.asarray(state.observation, np.float32)
        channels = cells.shape[-1]
        palette = np.array([colorsys.hsv_to_rgb(i / channels, 0.7, 1.0) for i in range(channels)])
        # What is in a higher channel covers what is below it.
        top = channels - 1 - cells[..., ::-1].argmax(axis=-1)
        colours = np.where(cells.any(axis=-1, keepdims=True), palette[top], 0.0)
        return (255 * colours).astype(np.uint8).repeat(_PIXELS, 0).repeat(_PIXELS, 1)

    def _answered_init(self, key: Traced) -> State:
        beginning, answering = jax.random.split(key)
        begun = self._env.init(beginning)
        return self._answer(begun, answering, same_types(begun.rewards * 0, begun.rewards))

    def _answered_step(self, state: State, action: Traced, key: Traced) -> State:
        moving, answering = jax.random.split(key)
        after = same_types(self._env.step(state, action, moving), state)
        return self._answer(after, answering, after.rewards)

    def _answer(self, state: State, key: Traced, rewards: Traced) -> State:
        """Let the others move until it is the agent's turn; their moves are paid too."""

        def waiting(now: tuple[State, Traced, Traced]) -> Traced:
            state, _, _ = now
            waits: Traced = ~(state.terminated | state.truncated) & (state.current_player != AGENT)
            return waits

        def move(now: tuple[State, Traced, Traced]) -> tuple[State, Traced, Traced]:
            state, key, rewards = now
            key, choosing, moving = jax.random.split(key, 3)
            logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
            action = jax.random.categorical(choosing, logits)
            after = same_types(self._env.step(state, action, moving), state)
            return after, key, rewards + after.rewards

        state, _, rewards = jax.lax.while_loop(waiting, move, (state, key, rewards))
        # What the agent sees at the end of a game is its own side of the board.
        seen = self._env._observe(state, jnp.asarray(AGENT, state.current_player.dtype))
        return state.replace(rewards=rewards, observation=seen)


def make(name: str, _prefix: str) -> Game:
    """The environment of this name."""
    return Game(name)
