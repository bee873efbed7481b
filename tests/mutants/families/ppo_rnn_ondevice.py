"""PPO with an LSTM on the device: each compiled turn is computed again in torch."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.on_device import DISCRETE, as_linear, assert_sampled, begun, rehearse_on_device
from mutants.reference import assert_orthogonal
from mutants.rollouts import Rollout, advantages
from mutants.subject import Mutant, Subject
from mutants.trial import State, Turn

FILE = "cleanrl/ppo_rnn_ondevice.py"
_SETTINGS: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 288,
    "num_envs": 6,
    "num_steps": 16,
    "num_minibatches": 3,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    # Small enough that ratios and values are clipped, and gradients too.
    "clip_coef": 0.02,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
}


def _tensors(state: State, prefix: str = "") -> dict[str, Tensor]:
    found = {path: value for path, value in state.items() if path.startswith(f"{prefix}[")}
    return {path.removeprefix(prefix): torch.tensor(np.asarray(v)) for path, v in found.items()}


class _Agent:
    """The network by the definition of an LSTM, over the file's numbers."""

    def __init__(self, state: State) -> None:
        self.parts = {name: part.requires_grad_() for name, part in _tensors(state).items()}

    def _linear(self, layer: str, rows: Tensor) -> Tensor:
        return rows @ self.parts[f"['{layer}']['kernel']"] + self.parts[f"['{layer}']['bias']"]

    def step(self, obs: Tensor, begins: Tensor, memory: Tensor) -> Tensor:
        """What is remembered after one step."""
        forgets = begins.bool()
        output, cell = (torch.where(forgets[:, None], 0.0, part) for part in memory)
        features = torch.tanh(self._linear("trunk", obs))
        gates = self._linear("lstm", features) + output @ self.parts["['lstm']['recurrent']"]
        take, keep, new, show = gates.chunk(4, dim=-1)
        cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
        return torch.stack([show.sigmoid() * cell.tanh(), cell])

    def roll(self, obs: Tensor, begins: Tensor, memory: Tensor) -> Tensor:
        """What is remembered after each step."""
        memories = []
        for now, begin in zip(obs, begins, strict=True):
            memory = self.step(now, begin, memory)
            memories.append(memory)
        return torch.stack(memories)

    def heads(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and values."""
        logits, value = self._linear("actor", output), self._linear("critic", output)
        return logits.log_softmax(-1), value.squeeze(-1)


def _adam(agent: _Agent, turn: Turn, lr: float) -> torch.optim.Adam:
    adam = torch.optim.Adam(agent.parts.values(), lr=lr, eps=1e-5)
    state = turn.before["state"]
    mean, square = (_tensors(state, f".moments[1].{which}") for which in ("mu", "nu"))
    for name, part in agent.parts.items():
        step = torch.tensor(float(state[".moments[1].count"]))
        adam.state[part] = {"step": step, "exp_avg": mean[name], "exp_avg_sq": square[name]}
    return adam


def _known(by_obs: dict[int, Tensor], obs: Tensor) -> Tensor:
    return by_obs[id(obs)]


def _same(subject: Subject, **arguments: Any) -> tuple[set[str], set[int]]:
    """In which ways episodes ended, and how many epochs were learned from."""
    turns, args = rehearse_on_device(subject.module, **{**_SETTINGS, **arguments})
    kinds, counts = set(), set()
    for turn in turns:
        rollout = Rollout.of(turn)
        kinds |= rollout.kinds
        agent = _Agent(turn.before["agent"])
        memory = torch.tensor(np.asarray(turn.before["state"][".memory"]))
        first = torch.tensor(np.asarray(turn.before["state"][".begins"]))
        ended = (rollout.terminated | rollout.truncated).float()
        begins = torch.cat([first[None], ended[:-1]])
        actions = rollout.actions.long()
        with torch.no_grad():
            memories = agent.roll(rollout.obs, begins, memory)
            old, values = agent.heads(memories[:, 0])
            nowhere = torch.zeros(args.num_envs)
            rows = zip(rollout.following, memories, strict=True)
            looks = torch.stack([agent.step(obs, nowhere, kept) for obs, kept in rows])
            following = agent.heads(looks[:, 0])[1]
            by_obs = {id(rollout.obs): values, id(rollout.following): following}
            gae = advantages(rollout, partial(_known, by_obs), args.gamma, args.gae_lambda)
        returns = gae + values
        old_taken = old.gather(-1, actions[..., None])[..., 0]
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        adam = _adam(agent, turn, share * args.learning_rate)
        size = args.num_envs // args.num_minibatches
        clipped_share, epochs = [], 0
        for order in turn.orders:
            for start in range(0, args.num_envs, size):
                mb = torch.from_numpy(order[start : start + size])
                outputs = agent.roll(rollout.obs[:, mb], begins[:, mb], memory[:, mb])[:, 0]
                log_probs, value = agent.heads(outputs)
                taken = log_probs.gather(-1, actions[:, mb, None])[..., 0]
                ratio = (taken - old_taken[:, mb]).exp()
                advantage = gae[:, mb]
                if args.norm_adv:
                    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                near = ratio.clip(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.minimum(advantage * ratio, advantage * near).mean()
                errors = (value - returns[:, mb]) ** 2
                if args.clip_vloss:
                    moved = (value - values[:, mb]).clip(-args.clip_coef, args.clip_coef)
                    errors = torch.maximum(errors, (values[:, mb] + moved - returns[:, mb]) ** 2)
                value_loss = errors.mean() / 2
                entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
                loss = policy_loss - args.ent_coef * entropy + args.vf_coef * value_loss
                adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parts.values(), args.max_grad_norm)
                adam.step()
                moved = (ratio.detach() - 1).abs()
                clipped_share.append((moved > args.clip_coef).float().mean().item())
            epochs += 1
            approx_kl = (ratio - 1 - ratio.log()).mean().item()
            if args.target_kl is not None and approx_kl > args.target_kl:
                break
        counts.add(epochs)
        logged = {
            "losses/value_loss": value_loss.item(),
            "losses/policy_loss": policy_loss.item(),
            "losses/entropy": entropy.item(),
            "losses/old_approx_kl": -ratio.log().mean().item(),
            "losses/approx_kl": approx_kl,
            "losses/clipfrac": float(np.mean(clipped_share)),
            "losses/explained_variance": 1 - ((returns - values).var() / returns.var()).item(),
            "charts/learning_rate": share * args.learning_rate,
        }
        for tag, number in logged.items():
            np.testing.assert_allclose(turn.logged[tag], number, rtol=2e-3, atol=2e-5, err_msg=tag)
        for name, reached in _tensors(turn.after["agent"]).items():
            wanted = agent.parts[name].detach()
            torch.testing.assert_close(reached, wanted, rtol=2e-3, atol=3e-5, msg=name)
    return kinds, counts


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and logged losses after each turn are those of a plain implementation in torch that
    follows each rollout through time, with episodes that end both ways."""
    kinds, _ = _same(subject)
    assert kinds == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, nothing is learned once an epoch has passed it,
    and what is logged is of the epochs before."""
    _, counts = _same(subject, target_kl=_TARGET_KL, update_epochs=4, learning_rate=1e-2)
    assert len(counts) > 1, "in all turns after as many epochs"


def actions_follow_the_policy(subject: Subject) -> None:
    """Actions are as frequent as a policy that prefers some of them says."""
    init = subject.module.init_agent

    def decided(*arguments: Any) -> Any:
        params = init(*arguments)
        params["actor"]["kernel"] *= 4000.0
        return params

    with mock.patch.object(subject.module, "init_agent", decided):
        settings = {"num_envs": 6, "num_steps": 1600, "total_timesteps": 9600}
        settings |= {"num_minibatches": 1, "update_epochs": 1}
        turns, _ = rehearse_on_device(subject.module, **{**_SETTINGS, **settings})
    rollout, agent = Rollout.of(turns[0]), _Agent(turns[0].before["agent"])
    ended = (rollout.terminated | rollout.truncated).float()
    begins = torch.cat([torch.ones_like(ended[:1]), ended[:-1]])
    with torch.no_grad():
        size = len(agent.parts["['lstm']['recurrent']"])
        outputs = agent.roll(rollout.obs, begins, torch.zeros(2, 6, size))[:, 0]
        log_probs, _ = agent.heads(outputs)
    assert_sampled(log_probs.flatten(0, 1), rollout.actions.flatten())


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 in the trunk, 1 in the LSTM of 64 cells and the value
    and 0.01 for the policy, biases are zero, and no two layers have the same random key."""
    params = begun(subject.module, "init_agent", DISCRETE)
    lstm = params["lstm"]
    layers = {name: as_linear(params[name]) for name in ("trunk", "actor", "critic")}
    for name in ("kernel", "recurrent"):
        layers[name] = as_linear({"kernel": lstm[name], "bias": lstm["bias"]})
    shapes = {name: tuple(layer.weight.shape) for name, layer in layers.items()}
    heads = {"trunk": (64, 3), "actor": (3, 64), "critic": (1, 64)}
    assert shapes == {**heads, "kernel": (256, 64), "recurrent": (256, 64)}
    gains = {"trunk": 2**0.5, "actor": 0.01, "critic": 1.0, "kernel": 1.0, "recurrent": 1.0}
    for name, gain in gains.items():
        assert_orthogonal(layers[name], gain)


# So that epochs are left out in some turns, not in all.
_TARGET_KL = 3e-4
_STOPS, _SAMPLES = (updates_stop_early,), (actions_follow_the_policy,)
_BEGINS = (the_network_begins_as_it_should,)
_TURN, _OPTIONS = (a_turn_is_that_of_the_paper,), (options_do_what_they_say,)

# All slow: each compiles a program of its own, which takes seconds.
MUTANTS = [
    Mutant(FILE, old, new, why, checks, slow=True)
    for old, new, why, checks in (
        ("memory * (1.0 - begins)[:, None]", "memory", "the past is never forgotten", _TURN),
        ("-jnp.minimum(adv", "-jnp.maximum(adv", "the optimistic surrogate", _TURN),
        ("- args.ent_coef * entropy", "+ args.ent_coef * entropy", "entropy is punished", _TURN),
        ("(1.0 - outcome.terminated) * next", "goes_on * next", "truncation is an end", _TURN),
        ("memory=samples.memory)", "memory=0 * samples.memory)", "no memory of the end", _TURN),
        ('batch["memory"] = state.memory', 'batch["memory"] = final[1]', "a later memory", _TURN),
        ("share(keep) * cell", "cell", "nothing is ever let fade", _TURN),
        ('"begins": samples.begins', '"begins": 0 * samples.begins', "episodes flow on", _TURN),
        ("optax.clip_by_global_norm(args.max_grad_norm)", "optax.identity()", "no clip", _TURN),
        ("if args.norm_adv:", "if True:", "--no-norm-adv is ignored", _OPTIONS),
        ("(logits + noise)", "(logits - noise)", "not the actions of a softmax", _SAMPLES),
        ("values[ran.sum() - 1, -1]", "values[-1, -1]", "losses of epochs left out", _STOPS),
        ("orthogonal(keys[2], (", "orthogonal(keys[1], (", "the same numbers twice", _BEGINS),
        ("inputs, 64, math.sqrt(2)", "inputs, 64", "other weights of the trunk", _BEGINS),
        ("- (returns - values).var()", "- (returns + values).var()", "a curve that lies", _TURN),
        ('old_approx_kl": -log', 'old_approx_kl": log', "the wrong sign of a change", _TURN),
    )
]

_FILES = ("ppo_rnn_ondevice",)
_LAST = "there is no such place, and JAX then takes the last one, which is the one that is meant"
HARMLESS = [
    Harmless("keys = jax.random.split(key, 5)", "5", "", "keys to spare", _FILES),
    Harmless("dense(keys[4], ", "4", "", _LAST, _FILES),
    Harmless("jnp.take_along_axis(", "0", "1", _LAST, _FILES),
]

LEARNING = [
    # Untrained, it finds the right end half of the time: a return of about 0.
    Learning(
        "ppo_rnn_ondevice",
        "--env-id mosaic/Recall-v0 --total-timesteps 40960 --learning-rate 1e-3",
        "--learning-rate 1e-12",
        1.5,
        # Without a memory the right end is found half of the time: a return of zero.
        least=0.8,
        episodes=40,
        slow=True,
    ),
]
