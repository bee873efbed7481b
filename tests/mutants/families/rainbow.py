"""Rainbow: double Q-learning, priorities, dueling, several steps, C51 and noise, each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.learning import CATCH, Learning
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

FILE = "cleanrl/rainbow_atari.py"
GAMMA = 0.9
ATOMS = np.linspace(-2, 2, 9, dtype=np.float32)
SETTINGS: dict[str, Any] = {
    "env_id": "mosaic/Catch-v0",
    "total_timesteps": 26,
    "learning_starts": 12,
    "buffer_size": 64,
    "batch_size": 4,
    "train_frequency": 3,
    "target_network_frequency": 7,
    "gamma": GAMMA,
    "learning_rate": 1e-3,
    "n_atoms": 9,
    "v_min": -2.0,
    "v_max": 2.0,
    "tau": 0.3,
}


def _turns(subject: Subject, **arguments: object) -> list[Turn]:
    return rehearse(subject.module, **{**SETTINGS, **arguments})


def _noisy(rows: Tensor, state: dict[str, Tensor], layer: str) -> Tensor:
    """A linear layer whose weights have noise on them, weight by weight."""
    part = {
        name: state[f"{layer}.{name}"]
        for name in ("weight_mu", "weight_sigma", "bias_mu", "bias_sigma", "noise_in", "noise_out")
    }
    noise = torch.outer(part["noise_out"], part["noise_in"])
    weight = part["weight_mu"] + part["weight_sigma"] * noise
    return rows @ weight.T + part["bias_mu"] + part["bias_sigma"] * part["noise_out"]


def _pmfs(state: dict[str, Tensor], obs: Tensor) -> Tensor:
    """The distribution of each action's return: dueling heads on a trunk of convolutions."""
    maps = obs.float() / 255
    for layer, stride in (("trunk.1", 4), ("trunk.3", 2), ("trunk.5", 1)):
        weight, bias = state[f"{layer}.weight"], state[f"{layer}.bias"]
        maps = nn.functional.conv2d(maps, weight, bias, stride).relu()
    rows = maps.flatten(1)
    value, advantage = (
        _noisy(_noisy(rows, state, f"{head}.0").relu(), state, f"{head}.2")
        for head in ("value", "advantage")
    )
    advantage = advantage.reshape(len(obs), -1, 9)
    logits = value.reshape(len(obs), 1, 9) + advantage - advantage.mean(dim=1, keepdim=True)
    return logits.softmax(dim=2)


def _with_noise_of(weights: dict[str, Tensor], noise: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: (noise if "noise" in name else weights)[name] for name in weights}


def gradient_is_that_of_rainbows_loss(subject: Subject) -> None:
    """The weighted cross entropy to the projected distribution of the discounted rewards of three
    steps plus what follows, where the network chooses the next action and the target judges it;
    the noise is that of the update, new for both networks."""
    for turn in reference.learning_turns(_turns(subject)):
        batch = turn.draws[0].batch
        each = np.arange(len(batch.rewards))
        online = _with_noise_of(turn.before["q_network"], turn.after["q_network"])
        slow = _with_noise_of(turn.before["target_network"], turn.after["target_network"])
        chooser = _pmfs(online, batch.next_obs) @ torch.from_numpy(ATOMS)
        following = _pmfs(slow, batch.next_obs)[each, chooser.argmax(dim=1)].numpy()
        total = sum(GAMMA**k * batch.rewards.numpy()[:, k] for k in range(3))
        discounts = GAMMA ** batch.steps.numpy() * (1 - batch.dones.numpy())
        aim = torch.from_numpy(reference.projected(following, total, discounts, ATOMS)).float()

        names = [name for name in online if name != "atoms" and "noise" not in name]
        learned = {name: online[name].clone().requires_grad_() for name in names}
        taken = _pmfs({**online, **learned}, batch.obs)[each, batch.actions[:, 0]]
        beta = 0.4 + 0.6 * turn.step / SETTINGS["total_timesteps"]
        weights = batch.chances.numpy() ** -beta
        weights = torch.from_numpy(weights / weights.max())
        loss = (-(aim * taken.log()).sum(dim=1) * weights).mean()
        gradients = torch.autograd.grad(loss, list(learned.values()))
        expected = torch.cat([part.flatten() for part in gradients])
        reference.assert_same_gradient(reference.learned_gradient(turn), expected)


def noise_is_new_in_every_update(subject: Subject) -> None:
    """Both networks draw noise in each update, and the acting one in each step before."""
    for turn in _turns(subject):
        early = turn.step < SETTINGS["learning_starts"]
        learns = bool(reference.updated(turn))
        assert _noise_changed(turn, "q_network") == (early or learns)
        assert _noise_changed(turn, "target_network") == learns


def _noise_changed(turn: Turn, name: str) -> bool:
    noise = [key for key in turn.before[name] if "noise" in key]
    changed = {not torch.equal(turn.before[name][key], turn.after[name][key]) for key in noise}
    assert len(changed) == 1, "all layers or none"
    return changed.pop()


def priorities_are_the_errors(subject: Subject) -> None:
    """After an update each drawn transition has its cross entropy, to the power alpha, as its
    priority; it is drawn with that weight from then on."""
    turns = _turns(
        subject, total_timesteps=60, train_frequency=1, learning_starts=40, batch_size=16
    )
    chances = torch.cat([turn.draws[0].batch.chances for turn in turns if turn.draws])
    first, last = chances[:16], chances[-16:]
    assert len(first.unique()) == 1, "all are equally new at first"
    assert float(last.max() / last.min()) > 1.05, "later some are known better than others"


def target_follows_whether_or_not_it_learns(subject: Subject) -> None:
    """The target's weights move by tau every seven steps, also where no update falls."""
    for turn in _turns(subject):
        moves = turn.step >= SETTINGS["learning_starts"] and turn.step % 7 == 0
        for state in (turn.before, turn.after):
            for name in ("q_network", "target_network"):
                state[f"{name} weights"] = {
                    key: value for key, value in state[name].items() if "noise" not in key
                }
        tau = 0.3 if moves else 0.0
        reference.assert_target_follows(turn, "target_network weights", "q_network weights", tau)


_LOSS = (gradient_is_that_of_rainbows_loss,)
_NOISE = (noise_is_new_in_every_update,)
_TARGET = (target_follows_whether_or_not_it_learns,)
MUTANTS = [
    Mutant(
        FILE,
        "best = q_values(next_obs).argmax(dim=1)",
        "best = (target_network(next_obs).softmax(dim=2) @ q_network.atoms).argmax(dim=1)",
        "no double Q-learning: the target chooses too",
        _LOSS,
    ),
    Mutant(
        FILE,
        "next_pmfs = target_network(next_obs)",
        "next_pmfs = q_network(next_obs)",
        "no target network",
        _LOSS,
    ),
    Mutant(
        FILE,
        "(rewards * powers).sum",
        "rewards.sum",
        "rewards are not discounted",
        _LOSS,
    ),
    Mutant(FILE, "args.gamma**steps", "args.gamma", "the discount of one step for several", _LOSS),
    Mutant(FILE, "(errors * weights).mean()", "errors.mean()", "importance weights ignored", _LOSS),
    Mutant(FILE, "data.chances**-beta", "data.chances**beta", "weights upside down", _LOSS),
    Mutant(FILE, " * (1 - dones).unsqueeze(1)", "", "the future counts after the end", _LOSS),
    Mutant(
        FILE,
        " - advantage.mean(dim=1, keepdim=True)",
        "",
        "the dueling heads are not told apart",
        _LOSS,
    ),
    Mutant(
        FILE,
        "                q_network.reset_noise()\n                target",
        "                target",
        "noise is not drawn again",
        _NOISE,
    ),
    Mutant(
        FILE,
        "                target_network.reset_noise()\n",
        "",
        "the target's noise is rigid",
        _NOISE,
    ),
    Mutant(
        FILE,
        "            memory.update_priorities(data.rows, priorities.cpu().numpy())\n",
        "",
        "priorities are never updated",
        (priorities_are_the_errors,),
    ),
    Mutant(
        FILE,
        "target.lerp_(source, args.tau)",
        "target.lerp_(source, 1.0)",
        "tau is ignored",
        _TARGET,
    ),
    Mutant(
        FILE,
        "        if global_step % args.target_network_frequency == 0:",
        "        if global_step % args.target_network_frequency == 0 == global_step % 3:",
        "the target only moves in steps that learn",
        _TARGET,
    ),
]
LEARNING = [
    Learning(
        "rainbow_atari",
        f"{CATCH} --total-timesteps 9000 --learning-starts 1000 --buffer-size 9000 "
        "--target-network-frequency 500 --learning-rate 3e-4",
        "--total-timesteps 1000",
        5,
        slow=True,
    ),
]
