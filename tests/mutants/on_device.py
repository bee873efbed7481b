"""Rehearses algorithms that are compiled together with their environments.

What happens inside the compiled program is reported from there: each step of the environments and
each order of minibatches, as they happen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.batch import DeviceEnvs
from cleanrl_worker.ondevice.environment import DeviceEnv, Transition
from mutants.trial import Draw, State, Step, Trial, Turn

DISCRETE = "mutants/DeviceNoise-v0"
CONTINUOUS = "mutants/ContinuousDeviceNoise-v0"


class Noise(DeviceEnv):
    """Random observations, rewards and ends, as in `mutants.noise_envs`."""

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
    time_limit = 6

    def __init__(self, *, continuous: bool) -> None:
        low, high = np.array([-1.0, -2.0], np.float32), np.array([3.0, 2.5], np.float32)
        self.action_space = spaces.Box(low, high) if continuous else spaces.Discrete(3)

    def reset(self, key: Any) -> tuple[Any, Any]:
        """Begin an episode."""
        obs = jax.random.normal(key, (3,))
        return obs, obs

    def step(self, state: Any, action: Any, key: Any) -> Transition:
        """Whatever was done, draw what follows."""
        looks, pays, ends = jax.random.split(key, 3)
        obs = jax.random.normal(looks, (3,))
        ended = jax.random.uniform(ends) < 0.12
        return Transition(obs, obs, jax.random.normal(pays), ended, np.bool_(False))


registry.register(DISCRETE, lambda: Noise(continuous=False))
registry.register(CONTINUOUS, lambda: Noise(continuous=True))


class DeviceTrial(Trial):
    """A trial in which every chunk is one iteration."""

    def __init__(self, args: Any) -> None:
        super().__init__(args, {})
        self.total = args.total_timesteps
        self.asked = False
        self._shown: dict[str, Any] = {}

    def check_spaces(self, envs: Any) -> None:
        """Note that the run was asked whether it can play this."""
        self.asked = True

    def show(self, **judges: Any) -> None:
        """Copy what is shown too, under its name."""
        self._shown = judges

    def turns_until_due(self, stride: int) -> int:
        """One turn at a time, so that every state is seen."""
        return 1

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Tell no one."""
        return nullcontext()

    def took_more(self, steps: int) -> None:
        """Nothing beyond the turn."""
        assert steps == 0

    def _copies(self, before: State) -> State:
        # Asking for the state makes the learner log what it measured in this turn.
        parts = {**self.remembered, **self._shown}
        return {name: dict(item.state_dict()) for name, item in parts.items()}


LAST_KEY = "there is no such key, and JAX then takes the last one, which is the one that is meant"


def watch_draws(module: ModuleType) -> None:
    """Note in the present turn what a module draws from its replay memory."""
    # Several checks may look at one module, and each batch is to be noted once.
    draw = getattr(module.draw, "unwatched", module.draw)

    def note(*parts: Any) -> None:
        names = ("obs", "next_obs", "actions", "rewards", "dones")
        tensors = (torch.from_numpy(np.array(part)) for part in parts)
        batch = SimpleNamespace(**dict(zip(names, tensors, strict=True)))
        _present[-1].turns[-1].draws.append(Draw(batch, torch.empty(0)))

    def watched(*arguments: Any) -> Any:
        drawn = draw(*arguments)
        jax.debug.callback(note, *drawn, ordered=True)
        return drawn

    vars(watched)["unwatched"] = draw
    vars(module)["draw"] = watched


class _Instead:
    """A module with one of its attributes replaced, for the file under test alone."""

    def __init__(self, module: Any, name: str, value: Any) -> None:
        self._module = module
        setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def watch_noise(module: ModuleType) -> None:
    """Note in the present turn the normal noise that a module draws."""

    def note(noise: Any) -> None:
        _present[-1].turns[-1].noise.append(np.array(noise))

    def watched(*arguments: Any) -> Any:
        noise = jax.random.normal(*arguments)
        jax.debug.callback(note, noise, ordered=True)
        return noise

    # The environment draws noise too, inside vmap, where nothing can be noted in order.
    module.jax = _Instead(jax, "random", _Instead(jax.random, "normal", watched))  # type: ignore[attr-defined]


_present: list[DeviceTrial] = []


def rehearse_on_device(module: ModuleType, **arguments: Any) -> tuple[list[Turn], Any]:
    """Run a module's `train`; returns its turns and its arguments.

    Whatever is rehearsed, the run is asked whether the algorithm can play this, and a turn counts
    as many steps as its environments took.
    """
    args = module.Args(**{"cuda": False, "seed": 1, **arguments})
    trial = DeviceTrial(args)
    _present[:] = [trial]
    with _watched(trial):
        module.train(args, trial)
    assert trial.asked, "the spaces were never checked"
    for turn in trial.turns:
        assert len(turn.steps) * args.num_envs == trial.stride, "steps are counted wrongly"
    return trial.turns, args


def begun(module: ModuleType, init: str, envs: Any) -> Any:
    """The parameters that a file begins with, each layer drawn with a random key of its own.

    Args:
        module: an algorithm file.
        init: the name of its function that draws them.
        envs: for which environments, or the id of one that is in JAX.
    """
    keys = []

    def noted(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(key: Any, *arguments: Any, **options: Any) -> Any:
            keys.append(tuple(np.asarray(key).tolist()))
            return draw(key, *arguments, **options)

        return drawn

    def orthogonal(gain: float) -> Callable[..., Any]:
        return noted(jax.nn.initializers.orthogonal(gain))

    initializers = _Instead(jax.nn.initializers, "orthogonal", orthogonal)
    inside = _Instead(jax, "nn", _Instead(jax.nn, "initializers", initializers))
    drawing = [name for name in ("dense", "conv") if name in vars(module)]
    instead: dict[str, Any] = {name: noted(vars(module)[name]) for name in drawing}
    envs = DeviceEnvs(envs, 1) if isinstance(envs, str) else envs
    with mock.patch.dict(vars(module), {**instead, "jax": inside}):
        params = getattr(module, init)(envs, jax.random.PRNGKey(3))
    assert keys
    assert len(set(keys)) == len(keys), "two layers are drawn with the same random key"
    return params


def as_linear(layer: dict[str, Any]) -> nn.Linear:
    """A layer of a file as one of torch."""
    kernel = torch.tensor(np.asarray(layer["kernel"]))
    linear = nn.Linear(*kernel.shape)
    with torch.no_grad():
        linear.weight.copy_(kernel.T)
        linear.bias.copy_(torch.tensor(np.asarray(layer["bias"])))
    return linear


def assert_uniform(layer: dict[str, Any], inputs: int, outputs: int) -> None:
    """A layer begins as torch's would: uniform up to one over the root of the inputs."""
    kernel, most = np.asarray(layer["kernel"]), 1 / math.sqrt(inputs)
    assert kernel.shape == (inputs, outputs)
    assert 0.9 * most < abs(kernel).max() <= most * (1 + 1e-6)
    spread = most / math.sqrt(3)
    assert abs(kernel.std() - spread) < 3 * spread / math.sqrt(kernel.size)
    assert not np.asarray(layer["bias"]).any()


def assert_sampled(log_probs: torch.Tensor, actions: torch.Tensor) -> None:
    """Actions are as frequent as a policy that prefers some of them says.

    Args:
        log_probs: of each action, one row a choice.
        actions: those that were chosen.
    """
    probs = log_probs.exp()
    entropy = -(probs * log_probs).sum(-1)
    assert 0.3 < float(entropy.mean()) < 1.0, "the policy has no preferences to be followed"
    variance = (probs * log_probs**2).sum(-1) - entropy**2
    taken = log_probs.gather(-1, actions.long()[:, None])[:, 0]
    assert abs(float((taken + entropy).sum() / variance.sum().sqrt())) < 4


@contextmanager
def _watched(trial: DeviceTrial) -> Iterator[None]:
    step, permutation = DeviceEnvs.step, jax.random.permutation

    def note_step(*parts: Any) -> None:
        trial.turns[-1].steps.append(Step(*(np.array(part) for part in parts)))

    def note_order(order: Any) -> None:
        trial.turns[-1].orders.append(np.array(order))

    def watched_step(self: DeviceEnvs, games: Any, actions: Any, draw: Any) -> Any:
        after, out = step(self, games, actions, draw)
        seen = (games.obs, actions, out.rewards, out.terminated, out.truncated, out.next_obs)
        jax.debug.callback(note_step, *seen, ordered=True)
        return after, out

    def watched_permutation(key: Any, rows: Any) -> Any:
        order = permutation(key, rows)
        jax.debug.callback(note_order, order, ordered=True)
        return order

    with (
        mock.patch.object(DeviceEnvs, "step", watched_step),
        mock.patch.object(jax.random, "permutation", watched_permutation),
    ):
        yield


_PATH = re.compile(r"^(.*)\['(\w+)'\]\[(\d)\]\['(kernel|bias)'\]$")
_WHOLE = re.compile(r"^(.*)\['(\w+)'\]$")


def as_torch(state: State, prefix: str = "") -> dict[str, np.ndarray]:
    """Saved layers under the names and in the layout of a `torch.nn.Sequential`."""
    named = {}
    for path, value in state.items():
        match = _PATH.match(path)
        if match and match[1] == prefix:
            part = "weight" if match[4] == "kernel" else "bias"
            named[f"{match[2]}.{2 * int(match[3])}.{part}"] = np.asarray(value).T
        # What is no layer, such as the logarithm of a standard deviation.
        elif (alone := _WHOLE.match(path)) and alone[1] == prefix:
            named[alone[2]] = np.asarray(value)
    return named


def adam_moments(state: State, names: list[str], prefix: str) -> dict[str, Any]:
    """optax's moments as `cleanrl_worker.kit.optim.Adam` saves its own."""

    def joined(which: str) -> np.ndarray:
        parts = as_torch(state, f"{prefix}.{which}")
        return np.concatenate([parts[name].ravel() for name in names])

    step = float(jnp.asarray(state[f"{prefix}.count"]))
    return {"step": np.float32(step), "mean": joined("mu"), "square": joined("nu")}


def layers_of(state: State, prefix: str = "") -> list[dict[str, torch.Tensor]]:
    """The saved layers of a network that is a list of them, in the layout of torch."""
    layers: dict[int, dict[str, torch.Tensor]] = {}
    for path, value in state.items():
        match = re.fullmatch(re.escape(prefix) + r"\[(\d)\]\['(\w+)'\]", path)
        if match:
            layers.setdefault(int(match[1]), {})[match[2]] = torch.as_tensor(np.asarray(value).T)
    return [layers[index] for index in sorted(layers)]


def plain_moments(state: State, prefix: str, parts: tuple[str, ...]) -> dict[str, Any]:
    """optax's moments of a list of layers as `cleanrl_worker.kit.optim.Adam` saves its own."""

    def joined(which: str) -> np.ndarray:
        layers = layers_of(state, f"{prefix}.{which}")
        found = [layer[part].numpy().ravel() for layer in layers for part in parts if part in layer]
        return np.concatenate(found)

    step = np.float32(np.asarray(state[f"{prefix}.count"]))
    return {"step": step, "mean": joined("mu"), "square": joined("nu")}


def altered(init: Callable[..., Any], change: Callable[[Any], None]) -> Callable[..., Any]:
    """A function that draws parameters as `init` does, and then changes them."""

    def changed(*arguments: Any) -> Any:
        params = init(*arguments)
        change(params)
        return params

    return changed
