"""Fast forward passes for acting.

On the CPU a tensor and a NumPy array can share memory. `numpy_forward` runs a small
network with NumPy over views of its own parameters: always current, never copied, and
several times quicker than torch for the few rows of a rollout step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.acceleration import Accelerate
from cleanrl_worker.kit.sampling import Random

# Beyond this NumPy's matrix product starts threads of its own, and torch is as quick.
_FEW_ROWS = 64

_KNOWN = (nn.Linear, nn.Tanh, nn.ReLU, nn.LayerNorm)

Forward = Callable[[np.ndarray], np.ndarray]
Outputs = Callable[[np.ndarray], tuple[np.ndarray, ...]]
ActionValue = Callable[[np.ndarray, np.ndarray], np.ndarray]


def numpy_forward(network: nn.Module, accelerate: Accelerate | None = None) -> Forward:
    """A function from an array of observations to the network's output as an array.

    Args:
        network: any module. Chains of Linear, Tanh, ReLU and LayerNorm on the CPU run in
            NumPy; any other network runs in torch without gradients.
        accelerate: from `kit.acceleration.accelerator`, for the networks that run in torch.

    Returns:
        The function. It follows the network's parameters as they are trained.
    """
    layers = list(network) if isinstance(network, nn.Sequential) else []
    on_cpu = all(parameter.device.type == "cpu" for parameter in network.parameters())
    if on_cpu and layers and all(isinstance(layer, _KNOWN) for layer in layers):
        in_numpy, in_torch = _chain(layers), _in_torch(network)
        return lambda rows: in_numpy(rows) if len(rows) <= _FEW_ROWS else in_torch(rows)
    return _in_torch(network, accelerate)


def heads(trunk: nn.Module, *each: nn.Module) -> Iterator[Forward]:
    """`numpy_forward` of every head of a network that they share."""
    return (numpy_forward(nn.Sequential(trunk, head)) for head in each)


def _chain(layers: list[nn.Module]) -> Forward:
    steps: list[tuple[np.ndarray, np.ndarray] | Callable[..., np.ndarray]] = []

    def forward(rows: np.ndarray) -> np.ndarray:
        if not steps:
            # Bound late: an optimiser made in between may have moved the parameters.
            steps.extend(_step(layer) for layer in layers)
        for step in steps:
            if isinstance(step, tuple):
                # `dot` has half the overhead of `@`, which counts for so few rows.
                rows = rows.dot(step[0])
                rows += step[1]
            else:
                rows = step(rows, out=rows)
        return rows

    return forward


def _step(layer: nn.Module) -> tuple[np.ndarray, np.ndarray] | Callable[..., np.ndarray]:
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().numpy().T, layer.bias.detach().numpy()
    if isinstance(layer, nn.LayerNorm):
        return _layer_norm(layer)
    return np.tanh if isinstance(layer, nn.Tanh) else _relu


def _layer_norm(layer: nn.LayerNorm) -> Callable[..., np.ndarray]:
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    # A product with this column is the mean of each row, in a fraction of what mean() takes.
    average = np.full((len(weight), 1), 1 / len(weight), np.float32)

    def normalize(rows: np.ndarray, out: np.ndarray) -> np.ndarray:
        rows -= rows @ average
        spread = np.square(rows) @ average
        spread += layer.eps
        rows /= np.sqrt(spread, out=spread)
        rows *= weight
        rows += bias
        return rows

    return normalize


def _relu(rows: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.maximum(rows, 0.0, out=out)
    return out


def _in_torch(network: nn.Module, accelerate: Accelerate | None = None) -> Forward:
    device = next(network.parameters()).device

    @torch.no_grad()
    def infer(rows: Tensor) -> Tensor:
        output: Tensor = network(rows)
        return output

    quick = infer if accelerate is None else accelerate(infer)

    def forward(rows: np.ndarray) -> np.ndarray:
        output: np.ndarray = quick(torch.from_numpy(rows).to(device)).cpu().numpy()
        return output

    return forward


def on_arrays(network: nn.Module, accelerate: Accelerate | None = None) -> Outputs:
    """A network as a function from arrays to arrays, for acting.

    Args:
        network: from one tensor to several, all with one row for each row of the input.
        accelerate: from `kit.acceleration.accelerator`, so that acting is quicker too.

    Returns:
        The function. It follows the network's parameters as they are trained.
    """
    device = next(network.parameters()).device

    @torch.no_grad()
    def forward(rows: Tensor) -> tuple[Tensor, list[int]]:
        outputs = [output.reshape(len(rows), -1) for output in network(rows)]
        # One tensor, because each that comes back from a GPU is waited for.
        return torch.cat(outputs, dim=1), [output.shape[1] for output in outputs]

    quick = forward if accelerate is None else accelerate(forward)

    def act(rows: np.ndarray) -> tuple[np.ndarray, ...]:
        joined, widths = quick(torch.from_numpy(rows).to(device))
        parts = np.split(joined.cpu().numpy(), np.cumsum(widths)[:-1], axis=1)
        return tuple(part[:, 0] if part.shape[1] == 1 else part for part in parts)

    return act


class Policy(Protocol):
    """What evaluation asks of a trained policy: actions for a batch of observations.

    A policy with memory also has `reset(ended)`, which is called with the rows whose
    episode ended. One that can say why it acted has `thought()`.
    """

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray: ...


@dataclass(frozen=True)
class Thought:
    """What a policy considered in its last turn, one row for each environment.

    Attributes:
        kind: What `scores` are: `probabilities` or `values` of the actions, or the `mean` of a
            continuous action.
        scores: One for each action, or for each part of it.
        value: The return that the critic expects from here; None without a critic.
    """

    kind: Literal["probabilities", "values", "mean"]
    scores: np.ndarray
    value: np.ndarray | None = None


class _Thoughtful:
    """Remembers what the last action was chosen by; worked out only for those who ask."""

    def __init__(self, scores_of: Forward, value_of: Forward | None = None) -> None:
        self._scores_of = scores_of
        self._value_of = value_of
        self._obs = self._scores = np.empty((0, 0), np.float32)

    def _considered(self, obs: np.ndarray) -> np.ndarray:
        self._obs, self._scores = obs, self._scores_of(obs)
        return self._scores

    def _value(self) -> np.ndarray | None:
        if self._value_of is None:
            return None
        value: np.ndarray = self._value_of(self._obs).reshape(len(self._obs))
        return value


class _Categorical(_Thoughtful):
    """See `categorical_policy`."""

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        logits = self._considered(obs)
        return logits.argmax(axis=-1) if deterministic else rng.categorical(logits)

    def thought(self) -> Thought:
        """The probability of each action."""
        weights = np.exp(self._scores - self._scores.max(axis=-1, keepdims=True))
        return Thought("probabilities", weights / weights.sum(-1, keepdims=True), self._value())


class _Greedy(_Thoughtful):
    """See `greedy_policy`."""

    def __init__(self, values: Forward, epsilon: float) -> None:
        super().__init__(values)
        self._epsilon = epsilon

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        q_values = self._considered(obs)
        best: np.ndarray = q_values.argmax(axis=-1)
        if deterministic:
            return best
        random = rng.integers(q_values.shape[-1], size=len(best))
        return np.where(rng.random(len(best)) < self._epsilon, random, best)

    def thought(self) -> Thought:
        """The value of each action; the best one is what is expected from here."""
        return Thought("values", self._scores, self._scores.max(axis=-1))


class _Noisy(_Thoughtful):
    """See `noisy_policy` and `gaussian_policy`."""

    def __init__(
        self, action: Forward, noise: Callable[[], np.ndarray], value_of: Forward | None = None
    ) -> None:
        super().__init__(action, value_of)
        self._noise = noise

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        centre = self._considered(obs)
        if deterministic:
            return centre
        return centre + self._noise() * rng.standard_normal(centre.shape, np.float32)

    def thought(self) -> Thought:
        """The action without its noise."""
        return Thought("mean", self._scores, self._value())


class _Judged:
    """See `judged_policy`."""

    def __init__(self, act: Policy, value_of: ActionValue | None) -> None:
        self._act, self._value_of = act, value_of
        self._obs = self._actions = np.empty((0, 0), np.float32)
        self._rng: Random | None = None

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        self._obs, self._rng = obs, rng
        self._actions = self._act(obs, rng, deterministic)
        return self._actions

    def thought(self) -> Thought:
        """The middle of the distribution, and what the critics expect of the action taken."""
        assert self._rng is not None, "it has acted"
        # The middle draws nothing, so the next sample is the same with and without this question.
        middle = self._act(self._obs, self._rng, True)
        value = None if self._value_of is None else self._value_of(self._obs, self._actions)
        return Thought("mean", middle, value)


class _Prepared:
    """See `prepared`."""

    def __init__(self, policy: Policy, prepare: Forward) -> None:
        self._policy, self._prepare = policy, prepare

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        return self._policy(self._prepare(obs), rng, deterministic)

    def thought(self) -> Thought | None:
        """What the policy behind it considered."""
        return thought_of(self._policy)


def thought_of(policy: Policy) -> Thought | None:
    """What a policy considered in its last turn; None for one that cannot say."""
    tell = getattr(policy, "thought", None)
    return None if tell is None else tell()


def prepared(policy: Policy, prepare: Forward) -> Policy:
    """A policy that sees its observations prepared, such as normalized.

    Args:
        policy: acts on what `prepare` returns.
        prepare: from observations to what the policy was trained on.
    """
    return _Prepared(policy, prepare)


def categorical_policy(logits_of: Forward, value_of: Forward | None = None) -> Policy:
    """The policy of action logits: the likeliest action, or a sample.

    Args:
        logits_of: from observations to one logit for each action.
        value_of: from observations to the critic's value.
    """
    return _Categorical(logits_of, value_of)


def greedy_policy(values: Forward, epsilon: float) -> Policy:
    """The policy of action values: the best action, or now and then a random one.

    Args:
        values: from observations to one value for each action.
        epsilon: how often a sampled policy acts at random.
    """
    return _Greedy(values, epsilon)


def expected(logits_of: Forward, atoms: Tensor) -> Forward:
    """The mean return of each action, where a network tells how likely each return is.

    Args:
        logits_of: from observations to the logits of all atoms, those of one action side by side.
        atoms: the returns that the logits are of.
    """
    returns = atoms.cpu().numpy()

    def values(obs: np.ndarray) -> np.ndarray:
        logits = logits_of(obs).reshape(len(obs), -1, len(returns))
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        mean: np.ndarray = (weights @ returns) / weights.sum(axis=2)
        return mean

    return values


def judged_policy(act: Policy, value_of: ActionValue | None) -> Policy:
    """A policy of continuous actions whose critics judge the action that it has taken.

    Args:
        act: from observations to actions; without chance if it is asked to be deterministic.
        value_of: from observations and actions to the value; None for a file without critics.
    """
    return _Judged(act, value_of)


def noisy_policy(action: Forward, noise: np.ndarray) -> Policy:
    """The policy of a deterministic actor, with Gaussian noise when sampled.

    Args:
        action: from observations to actions.
        noise: the standard deviation for each part of an action.
    """
    return _Noisy(action, lambda: noise)


def gaussian_policy(mean: Forward, logstd: Tensor, value_of: Forward | None = None) -> Policy:
    """The policy of a Gaussian: its mean, or a sample.

    Args:
        mean: from observations to the mean.
        logstd: the logarithm of the standard deviation, for all states the same.
        value_of: from observations to the critic's value.
    """
    # Read at every turn: in training the parameter changes with each update.
    return _Noisy(mean, lambda: np.exp(logstd.detach().cpu().numpy()), value_of)
