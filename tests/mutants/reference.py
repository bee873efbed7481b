"""Independent computations that checks hold an algorithm's updates against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants.trial import State, Step, Turn

_ADAM_BETA = 0.9
_ALL_KINDS = frozenset({"terminated", "truncated", "ordinary"})


def mlp(sizes: Sequence[int], *, last: nn.Module | None = None) -> nn.Sequential:
    """Linear layers of these sizes with ReLU between them, in plain torch."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([] if last is None else [last]))


def load(network: nn.Module, state: State, *, without: Iterable[str] = ()) -> nn.Module:
    """Give a reference network the numbers of a saved one, in order, whatever the names are."""
    tensors = [tensor for name, tensor in state.items() if name not in set(without)]
    parameters = list(network.parameters())
    assert [tuple(tensor.shape) for tensor in tensors] == [tuple(p.shape) for p in parameters]
    with torch.no_grad():
        for parameter, tensor in zip(parameters, tensors, strict=True):
            parameter.copy_(torch.as_tensor(tensor))
    return network


def learned_gradient(turn: Turn, optimizer: str = "optimizer") -> Tensor:
    """The gradient that Adam was given in a turn, worked out from its first moment."""
    before, after = (torch.as_tensor(s[optimizer]["mean"]) for s in (turn.before, turn.after))
    return (after - _ADAM_BETA * before) / (1 - _ADAM_BETA)


def updated(turn: Turn, optimizer: str = "optimizer") -> int:
    """How many steps an optimiser took in a turn."""
    before, after = turn.before[optimizer], turn.after[optimizer]
    if isinstance(after, tuple):  # of optax
        return int(after[0].count - before[0].count)
    return int(after["step"] - before["step"])


def learned_tree(turn: Turn, optimizer: str = "optimizer") -> Any:
    """The gradient that optax's Adam was given in a turn, as a tree of arrays."""
    import jax

    before, after = turn.before[optimizer][0].mu, turn.after[optimizer][0].mu
    return jax.tree.map(
        lambda one, other: (other - _ADAM_BETA * one) / (1 - _ADAM_BETA), before, after
    )


def assert_same_tree(actual: Any, expected: Any) -> None:
    """All arrays are equal up to rounding, measured against the largest number."""
    import jax

    leaves = jax.tree.leaves(expected)
    tolerance = 1e-4 * max(float(abs(leaf).max()) for leaf in leaves) + 1e-8
    for one, other in zip(jax.tree.leaves(actual), leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=tolerance)


def assert_tree_follows(turn: Turn, target: str, source: str, tau: float) -> None:
    """Like `assert_target_follows`, for trees of arrays."""
    import jax

    before, after, ahead = turn.before[target], turn.after[target], turn.after[source]
    expected = jax.tree.map(lambda slow, fast: (1 - tau) * slow + tau * fast, before, ahead)
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def nature_cnn(outputs: int) -> nn.Sequential:
    """The network of Mnih et al. (2015) in plain torch, from frames between 0 and 1."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, outputs),
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, maps: Tensor) -> Tensor:
        change: Tensor = self.second(torch.relu(self.first(torch.relu(maps))))
        return maps + change


def impala_trunk(frames: int, side: int) -> nn.Sequential:
    """The deep trunk of Espeholt et al. (2018) in plain torch, from pictures between 0 and 1.

    Args:
        frames: the channels of a picture.
        side: its width and height.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in ((frames, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, 2, 1)]
        layers += [_Residual(outputs), _Residual(outputs)]
        side = (side + 1) // 2
    layers += [nn.Flatten(), nn.ReLU(), nn.Linear(32 * side * side, 256), nn.ReLU()]
    return nn.Sequential(*layers)


def projected(
    pmfs: np.ndarray, rewards: np.ndarray, discounts: np.ndarray, atoms: np.ndarray
) -> np.ndarray:
    """C51's projection, one atom of one row at a time."""
    result = np.zeros_like(pmfs, dtype=np.float64)
    low, high, gap = atoms[0], atoms[-1], atoms[1] - atoms[0]
    for row, (pmf, reward, discount) in enumerate(zip(pmfs, rewards, discounts, strict=True)):
        for atom, mass in zip(atoms, pmf, strict=True):
            position = min(
                (min(max(reward + discount * atom, low), high) - low) / gap, len(atoms) - 1
            )
            lower = min(int(np.floor(position + 1e-6)), len(atoms) - 1)
            result[row, lower] += mass * (1 - (position - lower))
            if position - lower > 1e-6:
                result[row, lower + 1] += mass * (position - lower)
    return result


def gradient_of(loss: Tensor, *networks: nn.Module) -> Tensor:
    """The gradient of a loss with respect to all parameters, as one vector."""
    parameters = [parameter for network in networks for parameter in network.parameters()]
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)])


def assert_same_gradient(actual: Tensor, expected: Tensor) -> None:
    """Equal up to rounding, measured against the largest part of the gradient."""
    tolerance = 1e-4 * float(expected.abs().max()) + 1e-8
    torch.testing.assert_close(actual.reshape(-1), expected, rtol=1e-3, atol=tolerance)


def flat(state: State) -> Tensor:
    """All numbers of a saved network as one vector."""
    return torch.cat([torch.as_tensor(tensor).flatten() for tensor in state.values()])


def assert_target_follows(turn: Turn, target: str, source: str, tau: float) -> None:
    """The target network moved by the share tau towards the network that learns."""
    before, after = flat(turn.before[target]), flat(turn.after[target])
    expected = (1 - tau) * before + tau * flat(turn.after[source])
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-7)


def assert_true_transitions(
    turns: Sequence[Turn],
    kinds: frozenset[str] = frozenset({"terminated", "truncated", "ordinary"}),
) -> None:
    """Each drawn transition happened: its next state is the one that followed, also where an
    episode ended there, and it counts as an end only where the episode terminated.

    All the kinds of transitions are among those drawn.
    """
    happened = {
        _key(step.obs[i], step.actions[i]): (step, i)
        for turn in turns
        for step in turn.steps
        for i in range(len(step.rewards))
    }
    seen = set()
    for batch in (draw.batch for turn in turns for draw in turn.draws):
        rows = zip(
            batch.obs, batch.actions, batch.next_obs, batch.rewards, batch.dones, strict=True
        )
        for obs, action, next_obs, reward, done in rows:
            step, i = happened[_key(obs.numpy(), action.numpy())]
            np.testing.assert_array_equal(next_obs.numpy(), step.following[i])
            assert float(reward) == step.rewards[i]
            assert bool(done) == bool(step.terminated[i])
            seen.add(_kind(step, i))
    assert seen >= kinds


def _key(obs: np.ndarray, action: Any) -> bytes:
    return obs.tobytes() + np.asarray(action, np.float32).tobytes()


def _kind(step: Step, index: int) -> str:
    if step.terminated[index]:
        return "terminated"
    return "truncated" if step.truncated[index] else "ordinary"


def learning_turns(turns: Sequence[Turn], optimizer: str = "optimizer") -> list[Turn]:
    """The turns in which an optimiser took exactly one step; there are some."""
    found = [turn for turn in turns if updated(turn, optimizer)]
    assert found, f"{optimizer} never took a step"
    assert all(updated(turn, optimizer) == 1 for turn in found)
    return found


def assert_orthogonal(layer: Any, gain: float) -> None:
    """A layer begins with orthogonal weights of this gain, and without a bias."""
    weight = torch.as_tensor(layer.weight).detach().flatten(1)
    narrow = weight if weight.shape[0] <= weight.shape[1] else weight.T
    wanted = gain**2 * torch.eye(len(narrow))
    torch.testing.assert_close(narrow @ narrow.T, wanted, rtol=1e-3, atol=1e-5 * gain**2)
    assert not torch.as_tensor(layer.bias).any()


def assert_adam_step(
    turn: Turn,
    optimizer: str,
    networks: Sequence[str],
    lr: float,
    *,
    eps: float = 1e-8,
    without: Iterable[str] = (),
) -> None:
    """What the networks learned in a turn with one update is the step of Adam's definition.

    Args:
        turn: what happened.
        optimizer: the name of the optimiser; its saved moments are taken as they are.
        networks: the names of the networks it trains, in its order.
        lr: the learning rate.
        eps: what Adam adds to the spread.
        without: saved tensors that do not learn.
    """
    moments = turn.after[optimizer]
    count = float(moments["step"])
    mean = torch.as_tensor(moments["mean"]).double() / (1 - _ADAM_BETA**count)
    square = torch.as_tensor(moments["square"]).double() / (1 - 0.999**count)
    expected = -lr * mean / (square.sqrt() + eps)
    before, after = (
        torch.cat(
            [flat({k: v for k, v in s[name].items() if k not in set(without)}) for name in networks]
        )
        for s in (turn.before, turn.after)
    )
    torch.testing.assert_close((after - before).double(), expected, rtol=1e-3, atol=lr * 1e-3)
