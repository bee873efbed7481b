"""PPO in JAX: its advantages and its loss against their definitions in NumPy and torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.distributions import Categorical

from mutants.harmless import Harmless
from mutants.reference import assert_orthogonal
from mutants.rollouts import Rollout, advantages
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Ended, Trial, Turn, rehearse

STEPWISE = "cleanrl/ppo_atari_envpool_xla_jax.py"
SCANNED = "cleanrl/ppo_atari_envpool_xla_jax_scan.py"
_STEPS, _ENVS, _INPUTS, _ACTIONS = 12, 3, 5, 4


def _args(**arguments: Any) -> SimpleNamespace:
    known = {"gamma": 0.9, "gae_lambda": 0.8, "clip_coef": 0.1, "ent_coef": 0.05, "vf_coef": 0.7}
    return SimpleNamespace(**{"norm_adv": True, **known, **arguments})


def advantages_are_those_of_the_definition(subject: Subject) -> None:
    """The sum of discounted errors, over rollouts with both kinds of ends: a terminated state is
    worth nothing, a truncated one its value, and no sum continues beyond either."""
    import jax.numpy as jnp

    rng, module = np.random.default_rng(0), subject.module
    shape = (_STEPS, _ENVS)
    rewards = rng.normal(size=shape).astype(np.float32)
    values = rng.normal(size=(_STEPS + 1, _ENVS)).astype(np.float32)
    terminated, truncated = rng.random(shape) < 0.15, rng.random(shape) < 0.15
    truncated &= ~terminated
    assert terminated.any()
    assert truncated.any()
    nothing = jnp.zeros(shape)
    outcome = module.Outcome(
        *(jnp.asarray(part) for part in (rewards, terminated, truncated)), *(nothing,) * 4
    )
    samples = module.Sample(nothing, nothing, nothing, jnp.asarray(values[:-1]), outcome)
    reached = module.gae(_args(), samples, jnp.asarray(values[-1]))
    # The observation after a step is in both cases the true next one.
    rollout = Rollout(
        *(torch.from_numpy(part) for part in (values[:-1], rewards, rewards)),
        *(torch.from_numpy(part) for part in (terminated, truncated, values[1:])),
    )
    expected = advantages(rollout, lambda value: value, 0.9, 0.8)
    np.testing.assert_allclose(reached, expected, rtol=1e-4, atol=1e-5)


def _minibatch(rng: np.random.Generator, rows: int = 40) -> dict[str, np.ndarray]:
    normal = {name: rng.normal(size=rows) for name in ("advantages", "returns")}
    return {
        **{name: part.astype(np.float32) for name, part in normal.items()},
        "obs": rng.normal(size=(rows, _INPUTS)).astype(np.float32),
        "actions": rng.integers(_ACTIONS, size=rows),
        "logprobs": np.log(rng.uniform(0.15, 0.4, size=rows)).astype(np.float32),
        "valid": (rng.random(rows) < 0.8).astype(np.float32),
    }


def _losses(args: Any, logits: Tensor, values: Tensor, mb: dict[str, Tensor]) -> dict[str, Tensor]:
    """The loss over the rows that were steps of an episode; the others do not exist."""
    kept = {name: part[mb["valid"] > 0] for name, part in mb.items()}
    policy, values = Categorical(logits=logits[mb["valid"] > 0]), values[mb["valid"] > 0]
    logratio = policy.log_prob(kept["actions"]) - kept["logprobs"]
    ratio = logratio.exp()
    gain = kept["advantages"]
    if args.norm_adv:
        gain = (gain - gain.mean()) / (gain.std(correction=0) + 1e-8)
    near = ratio.clip(1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = -torch.minimum(gain * ratio, gain * near).mean()
    v_loss = ((values - kept["returns"]) ** 2).mean() / 2
    entropy = policy.entropy().mean()
    return {
        "losses/loss": pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss,
        "losses/value_loss": v_loss,
        "losses/policy_loss": pg_loss,
        "losses/entropy": entropy,
        "losses/approx_kl": (ratio - 1 - logratio).mean(),
        "losses/clipfrac": ((ratio - 1).abs() > args.clip_coef).float().mean(),
    }


def the_loss_is_that_of_the_paper(subject: Subject) -> None:
    """Clipped surrogate, squared error and entropy over the steps that were no resets, with torch's
    distributions; with and without normalised advantages, and where all but one were resets."""
    import jax.numpy as jnp

    rng, module = np.random.default_rng(1), subject.module
    params = {
        "actor": rng.normal(size=(_INPUTS, _ACTIONS)).astype(np.float32),
        "critic": rng.normal(size=_INPUTS).astype(np.float32),
    }
    # A linear network in place of the convolutions, which are not what is in question.
    vars(module)["forward"] = lambda params, obs, *_: (
        obs @ params["actor"],
        obs @ params["critic"],
    )
    mb = _minibatch(rng)
    alone = {**mb, "valid": np.eye(len(mb["valid"]), dtype=np.float32)[3]}
    plain = _args(norm_adv=False)
    for args, rows in ((_args(), mb), (plain, mb), (plain, alone)):
        loss, losses = module.ppo_loss(
            params, args, {name: jnp.asarray(part) for name, part in rows.items()}
        )
        known = {name: torch.from_numpy(part) for name, part in rows.items()}
        actor, critic = (torch.from_numpy(params[name]) for name in ("actor", "critic"))
        expected = _losses(args, known["obs"] @ actor, known["obs"] @ critic, known)
        np.testing.assert_allclose(loss, expected["losses/loss"], rtol=1e-4)
        for name, wanted in expected.items():
            np.testing.assert_allclose(losses[name], wanted, rtol=1e-4, atol=1e-6, err_msg=name)


def the_network_is_that_of_atari(subject: Subject) -> None:
    """The network of Mnih et al. (2015) with two heads, over torch's own convolutions. Weights
    begin orthogonal with gain sqrt 2, 0.01 for the policy and 1 for the value, without biases, and
    no two layers are drawn with the same random key."""
    import jax

    from mutants.on_device import begun

    # As it is, whatever other checks have put in the network's place.
    module = Subject(subject.file, subject.source).module
    space = SimpleNamespace(shape=(4, 84, 84))
    params = begun(
        module,
        "init_agent",
        SimpleNamespace(single_observation_space=space, single_action_space=spaces.Discrete(6)),
    )
    plain: list[nn.Module] = [
        nn.Conv2d(4, 32, 8, 4),
        nn.Conv2d(32, 64, 4, 2),
        nn.Conv2d(64, 64, 3, 1),
    ]
    plain += [nn.Linear(3136, 512), nn.Linear(512, 6), nn.Linear(512, 1)]
    trunk = params["trunk"]
    own = [*trunk["convs"], trunk["hidden"], params["actor"], params["critic"]]
    root = 2**0.5
    for layer, copy, gain in zip(own, plain, (root, root, root, root, 0.01, 1.0), strict=True):
        _copy_layer(layer, copy)
        assert_orthogonal(copy, gain)
    rng = np.random.default_rng(0)
    for layer, copy in zip(own, plain, strict=True):
        layer["bias"] = rng.normal(size=layer["bias"].shape).astype(np.float32)
        _copy_layer(layer, copy)
    obs = rng.integers(256, size=(3, 4, 84, 84), dtype=np.uint8)
    maps = torch.from_numpy(obs) / 255
    with torch.no_grad():
        for conv in plain[:3]:
            maps = conv(maps).relu()
        # The file flattens with the channels last.
        hidden = plain[3](maps.permute(0, 2, 3, 1).flatten(1)).relu()
        logits, values = plain[4](hidden), plain[5](hidden)[:, 0]
    kinds: list[dict[str, Any]] = [{}]
    if subject.file == SCANNED:
        kinds.append({"convolve": module.unfolded_convolve})
    for kind in kinds:
        reached = jax.tree.map(np.asarray, module.forward(params, obs, **kind))
        np.testing.assert_allclose(reached[0], logits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(reached[1], values, rtol=1e-3, atol=1e-3)


def _copy_layer(layer: dict[str, Any], plain: nn.Module) -> None:
    kernel = torch.tensor(np.asarray(layer["kernel"]))
    order = (3, 2, 0, 1) if kernel.ndim == 4 else (1, 0)
    with torch.no_grad():
        for name, tensor in (("weight", kernel.permute(order)), ("bias", layer["bias"])):
            parameter = getattr(plain, name)
            assert parameter.shape == tensor.shape
            parameter.copy_(torch.tensor(np.asarray(tensor)))


@dataclass
class _Seen:
    """A rollout, and the frames after it."""

    obs: np.ndarray
    actions: np.ndarray
    outcome: Any
    last: np.ndarray


class _Reported(Trial):
    """A trial in which every rollout ends one game; it checks the step of whatever is logged."""

    asked = False

    def check_spaces(self, envs: Any) -> None:
        """Note that the run was asked whether it can play this."""
        self.asked = True

    def to_report(self, turn: Turn) -> list[Ended]:
        """The game that is said to have ended in the turn."""
        assert self.asked, "the spaces were never checked"
        number = turn.step // self.stride
        return [Ended(turn.step + self.stride, (float(number),))]

    def log(self, step: int, values: dict[str, Any]) -> None:
        """Keep what was logged, at the step after the rollout."""
        assert step == self.turns[-1].step + self.stride
        super().log(step, values)


def _features(frames: Any) -> Any:
    """Brightness of some parts of a picture, in place of the convolutions."""
    blocks = frames.reshape(len(frames), 4, 6, 14, 6, 14)[:, :, :, ::2, :, ::2]
    means = blocks.astype(np.float32).mean(axis=(3, 5)) / 64
    return means.reshape(len(frames), -1)


def _made_small(module: ModuleType, seen: list[_Seen]) -> None:
    import jax

    class Watched(module.XlaEnvs):  # type: ignore[misc, name-defined]
        @property
        def averages(self) -> dict[str, float]:
            return {"charts/avg_episodic_return": 7.0}

        def note(self, obs: Any, actions: Any, outcome: Any) -> dict[str, Any]:
            super().note(obs, actions, outcome)
            kept = jax.tree.map(np.array, (obs, actions, outcome, self.games.obs))
            seen.append(_Seen(*kept))
            return {"episodes": [(float(len(seen) - 1), 1)]}

    def init(envs: Any, key: Any) -> dict[str, Any]:
        actor = jax.random.normal(key, (144, int(envs.single_action_space.n)))
        return {"actor": actor, "critic": 0.3 * actor[:, 0]}

    def forward(params: Any, obs: Any, *_: Any) -> tuple[Any, Any]:
        rows = _features(obs)
        return rows @ params["actor"], rows @ params["critic"]

    vars(module).update(XlaEnvs=Watched, init_agent=init, forward=forward)
    # Each look at the clock is two seconds after the one before.
    module.time = SimpleNamespace(monotonic=count(0, 2).__next__)  # type: ignore[attr-defined]


@contextmanager
def _orders() -> Iterator[list[np.ndarray]]:
    """The permutations that compiled code draws."""
    import jax

    permutation, orders = jax.random.permutation, []

    def watched(key: Any, rows: Any) -> Any:
        order = permutation(key, rows)
        jax.debug.callback(lambda drawn: orders.append(np.array(drawn)), order, ordered=True)
        return order

    with mock.patch.object(jax.random, "permutation", watched):
        yield orders


def _same(subject: Subject, **arguments: Any) -> list[int]:
    """Compare every turn with a plain one; how many epochs each learned from."""
    seen: list[_Seen] = []
    _made_small(subject.module, seen)
    settings = {
        "num_envs": 4, "num_steps": 40, "total_timesteps": 480, "num_minibatches": 4,
        "update_epochs": 3, "learning_rate": 1e-2, "gamma": 0.9, "gae_lambda": 0.8,
        "clip_coef": 0.05, "ent_coef": 0.05, "vf_coef": 0.7, "max_grad_norm": 0.3, **arguments,
    }  # fmt: skip
    with _orders() as drawn:
        turns = rehearse(subject.module, kind=_Reported, **settings)
    args = subject.module.Args(**settings)
    assert len(turns) == len(seen) == 3
    assert any((~rollout.outcome.valid).any() for rollout in seen)
    epochs = []
    for number, (turn, rollout) in enumerate(zip(turns, seen, strict=True)):
        share = 1 - number / 3 if args.anneal_lr else 1.0
        # In compiled code all are drawn, also those of epochs that are left out.
        orders = turn.orders or drawn[number * 3 : number * 3 + 3]
        epochs.append(_replayed(turn, rollout, args, orders, share * args.learning_rate))
        assert turn.logged["charts/SPS_update"] == 160 / 2
        assert turn.logged["charts/avg_episodic_return"] == 7.0
        if turn.orders:
            assert len(turn.orders) == epochs[-1]
    return epochs


def _replayed(turn: Turn, rollout: _Seen, args: Any, orders: list[np.ndarray], lr: float) -> int:
    params = {name: torch.tensor(np.asarray(p)) for name, p in turn.before["agent"].items()}
    for part in params.values():
        part.requires_grad_()
    (_, before), outcome = turn.before["optimizer"], rollout.outcome
    adam = torch.optim.Adam(params.values(), lr=lr, eps=1e-5)
    for name, part in params.items():
        adam.state[part] = {
            "step": torch.tensor(float(before.count)),
            "exp_avg": torch.tensor(np.asarray(before.mu[name])),
            "exp_avg_sq": torch.tensor(np.asarray(before.nu[name])),
        }
    steps, envs = rollout.actions.shape
    frames = np.concatenate([rollout.obs, rollout.last[None]])
    rows = torch.from_numpy(_features(frames.reshape(-1, *frames.shape[2:])))
    with torch.no_grad():
        values = (rows @ params["critic"]).view(steps + 1, envs)
        logits = (rows @ params["actor"])[: steps * envs]
        actions = torch.from_numpy(rollout.actions).long().flatten()
        logprobs = Categorical(logits=logits).log_prob(actions)
        found = (outcome.rewards, outcome.terminated, outcome.truncated)
        rewards, *ends = (torch.as_tensor(part) for part in found)
        plain = Rollout(values[:-1], values[:-1], rewards, ends[0], ends[1], values[1:])
        gae = advantages(plain, lambda value: value, args.gamma, args.gae_lambda)
    whole = {
        "actions": actions,
        "logprobs": logprobs,
        "advantages": gae.flatten(),
        "returns": (gae + values[:-1]).flatten(),
        "valid": torch.as_tensor(outcome.valid).flatten().float(),
    }
    size, epochs = steps * envs // args.num_minibatches, 0
    for order in orders:
        for start in range(0, steps * envs, size):
            mb = torch.from_numpy(order[start : start + size])
            some = {name: part[mb] for name, part in whole.items()}
            logged = _losses(args, rows[mb] @ params["actor"], rows[mb] @ params["critic"], some)
            adam.zero_grad()
            logged["losses/loss"].backward()
            nn.utils.clip_grad_norm_(params.values(), args.max_grad_norm)
            adam.step()
        epochs += 1
        if args.target_kl is not None and logged["losses/approx_kl"] > args.target_kl:
            break
    np.testing.assert_allclose(turn.logged["charts/learning_rate"], lr, rtol=1e-5)
    for tag, wanted in logged.items():
        np.testing.assert_allclose(
            turn.logged[tag], wanted.item(), rtol=5e-3, atol=2e-5, err_msg=tag
        )
    for name, part in params.items():
        reached = torch.tensor(np.asarray(turn.after["agent"][name]))
        torch.testing.assert_close(reached, part.detach(), rtol=2e-3, atol=5e-5, msg=name)
    return epochs


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """In real games weights, losses, learning rate and speed after each rollout are those of a
    plain implementation in torch, with steps that only reset a game; games that ended are reported
    where they did."""
    assert _same(subject) == [3, 3, 3]


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages and annealing it is still that of the paper, and an update ends
    with the epoch in which the policy moved too far."""
    epochs = _same(subject, norm_adv=False, anneal_lr=False, target_kl=_TARGET_KL)
    assert len(set(epochs)) > 1, "all updates end with the same epoch"


_TARGET_KL = 0.01
GAE: tuple[Check, ...] = (advantages_are_those_of_the_definition,)
LOSS: tuple[Check, ...] = (the_loss_is_that_of_the_paper,)
TURN: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
OPTIONS: tuple[Check, ...] = (options_do_what_they_say,)
NETWORK: tuple[Check, ...] = (the_network_is_that_of_atari,)
_EDITS = (
    ("next_values * (1 - outcome.terminated)", "next_values", "termination is ignored", GAE),
    (
        "next_values * (1 - outcome.terminated)",
        "next_values * (1 - outcome.terminated) * (1 - outcome.truncated)",
        "truncation counts as an end",
        GAE,
    ),
    ("args.gae_lambda * (1 - ended)", "args.gae_lambda", "advantages flow between episodes", GAE),
    ("args.gamma * args.gae_lambda * (", "0.0 * (", "lambda is ignored", GAE),
    ("-mean(jnp.minimum(", "mean(jnp.minimum(", "the policy gets worse on purpose", LOSS),
    ("jnp.minimum(advantages * ratio", "jnp.maximum(advantages * ratio", "optimistic", LOSS),
    (
        "jnp.minimum(advantages * ratio, advantages * clipped)",
        "advantages * ratio",
        "no clipping: an update may go anywhere",
        LOSS,
    ),
    ("- args.ent_coef * entropy", "+ args.ent_coef * entropy", "entropy is punished", LOSS),
    ("+ args.vf_coef * v_loss", "", "the value never learns", LOSS),
    (
        'mb["valid"] / jnp.maximum(mb["valid"].sum(), 1)',
        'jnp.ones_like(mb["valid"]) / len(mb["valid"])',
        "steps that only reset a game are learned from",
        LOSS,
    ),
    ("centred = advantages - mean(advantages)", "centred = advantages", "not centred", LOSS),
    ("    if args.norm_adv:\n", "    if True:\n", "--no-norm-adv is ignored", LOSS),
)
_SLOW_EDITS = (
    (
        "optax.clip_by_global_norm(args.max_grad_norm)",
        "optax.identity()",
        "the gradient is not clipped",
        TURN,
    ),
    ("learning_rate *= 1.0 - global", "learning_rate *= 1.0 + global", "the rate rises", TURN),
    ("        if args.anneal_lr:", "        if True:", "--no-anneal-lr is ignored", OPTIONS),
    (
        '["losses/approx_kl"] > args.target_kl',
        '["losses/approx_kl"] < args.target_kl',
        "an update ends before the policy has moved",
        OPTIONS,
    ),
    (
        "global_step += batch_size",
        "global_step += args.num_envs",
        "curves are drawn at other steps",
        TURN,
    ),
    ("run.check_spaces(envs)", "pass", "it starts where it cannot learn anything", TURN),
    ("batch_size / (time", "args.num_envs / (time", "a curve of another speed", TURN),
    (
        "maps = relu(convolve(third",
        "maps = (convolve(third",
        "a layer without its non-linearity",
        NETWORK,
    ),
    ("512, 1, std=1.0)", "512, 1, std=2.0)", "the value begins with other weights", NETWORK),
    ("conv(keys[2], 3", "conv(keys[1], 3", "two layers begin with the same numbers", NETWORK),
)
MUTANTS = [
    *(Mutant(file, *edit) for file in (STEPWISE, SCANNED) for edit in _EDITS),
    # They compile a program for real games, or the network.
    *(Mutant(file, *edit, slow=True) for file in (STEPWISE, SCANNED) for edit in _SLOW_EDITS),
]

_FILES = tuple(file.split("/")[1].removesuffix(".py") for file in (STEPWISE, SCANNED))
_LAST = "there is no such place, and JAX then takes the last one, which is the one that is meant"
HARMLESS = [
    Harmless("keys = jax.random.split(trunk_key, 4)", "4", "", "keys to spare", _FILES),
    Harmless('"hidden": dense(keys[3], ', "3", "", _LAST, _FILES),
    Harmless("jnp.take_along_axis(", "0", "1", _LAST, _FILES),
    Harmless(
        "centred / (jnp.sqrt(",
        "jnp.sqrt(mean(jnp.square(centred))) + 1e-8",
        "",
        "it guards against a division by zero; the spread of a batch is a million times as large",
        _FILES,
    ),
    Harmless("centred / (jnp.sqrt(", "1e-8", "", "it guards against a division by zero", _FILES),
    Harmless(
        "in_loop = unfolded_convolve if",
        "jax.default_backend()",
        "",
        "both compute the same; on a CPU one of them is faster",
        _FILES[1:],
    ),
]
