"""PPO with an LSTM on the device: each compiled turn is computed again in torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants.learning import Learning
from mutants.on_device import DISCRETE, rehearse_on_device
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


def _same(subject: Subject, **arguments: Any) -> set[str]:
    turns, args = rehearse_on_device(subject.module, **{**_SETTINGS, **arguments})
    kinds = set()
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
        for tag, wanted in (("value", value_loss), ("policy", policy_loss)):
            np.testing.assert_allclose(
                turn.logged[f"losses/{tag}_loss"], wanted.item(), rtol=2e-3, atol=2e-5
            )
        for name, reached in _tensors(turn.after["agent"]).items():
            wanted = agent.parts[name].detach()
            torch.testing.assert_close(reached, wanted, rtol=2e-3, atol=3e-5, msg=name)
    return kinds


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and logged losses after each turn are those of a plain implementation in torch that
    follows each rollout through time, with episodes that end both ways."""
    assert _same(subject) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


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
    )
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
