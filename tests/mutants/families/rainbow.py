"""Rainbow: double Q-learning, priorities, dueling, several steps, C51 and noise, each by itself."""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from mutants import reference
from mutants.families.dqn import (
    TAU,
    assert_learned,
    assert_logged,
    assert_target_moves,
    plays_the_game_that_was_asked_for,
)
from mutants.harmless import Harmless
from mutants.learning import CATCH, Learning
from mutants.subject import Mutant, Subject
from mutants.trial import State, Trial, Turn, rehearse

FILE = "cleanrl/rainbow_atari.py"
GAMMA, ALPHA, BETA, EPS = 0.9, 0.7, 0.3, 0.05
ATOMS = np.linspace(-2, 2, 9, dtype=np.float32)
# Learning from shortly before the hundredth step, where curves get their points.
_START, _STEPS = 93, 112
SETTINGS: dict[str, Any] = {
    "env_id": "mosaic/Catch-v0",
    "total_timesteps": _STEPS,
    "learning_starts": _START,
    "buffer_size": 128,
    "batch_size": 32,
    "train_frequency": 5,
    "target_network_frequency": 7,
    "gamma": GAMMA,
    "learning_rate": 1e-2,
    "n_atoms": 9,
    "v_min": -2.0,
    "v_max": 2.0,
    "tau": TAU,
    "prioritized_replay_alpha": ALPHA,
    "prioritized_replay_beta": BETA,
    "prioritized_replay_eps": EPS,
}
_BUFFERS = ("noise_in", "noise_out")


def _with_small_network(subject: Subject) -> ModuleType:
    """The file with little in its network: milliseconds, not seconds.

    What the file does with a network stays; what it builds is for `network_is_the_papers`.
    """
    module = Subject(subject.file, subject.source).module
    noisy, network = module.NoisyLinear, module.QNetwork

    class Small(network):  # type: ignore[misc, valid-type]
        def __init__(self, envs: Any, args: Any) -> None:
            nn.Module.__init__(self)
            self.n_actions, self.n_atoms = 4, args.n_atoms
            self.register_buffer("atoms", torch.from_numpy(ATOMS))
            self.trunk = nn.Sequential(_Reduced(), nn.Linear(4 * 12 * 12, 16), nn.ReLU())
            self.value = nn.Sequential(noisy(16, 8), nn.ReLU(), noisy(8, 9))
            self.advantage = nn.Sequential(noisy(16, 8), nn.ReLU(), noisy(8, 4 * 9))

    module.__dict__["QNetwork"] = Small
    return module


class _Reduced(nn.Module):
    def forward(self, frames: Tensor) -> Tensor:
        """Every seventh pixel."""
        pixels: Tensor = frames[:, :, ::7, ::7].flatten(1) / 255
        return pixels


class _Noted(Trial):
    """Notes the priorities that were given."""

    def _watch_memory(self, memory: Any) -> None:
        super()._watch_memory(memory)
        give = memory.update_priorities

        def watched(rows: np.ndarray, priorities: np.ndarray) -> None:
            self.turns[-1].before["given"] = (rows.copy(), priorities.copy())
            give(rows, priorities)

        memory.update_priorities = watched


@lru_cache(maxsize=1)
def _turns(subject: Subject) -> list[Turn]:
    """A run that most checks look at, each for another promise."""
    return rehearse(_with_small_network(subject), kind=_Noted, **SETTINGS)


def _noisy(rows: Tensor, state: State, layer: str) -> Tensor:
    """A linear layer whose weights have noise on them, weight by weight."""
    part = {
        name: state[f"{layer}.{name}"]
        for name in ("weight_mu", "weight_sigma", "bias_mu", "bias_sigma", *_BUFFERS)
    }
    noise = torch.outer(part["noise_out"], part["noise_in"])
    weight = part["weight_mu"] + part["weight_sigma"] * noise
    result: Tensor = rows @ weight.T + part["bias_mu"] + part["bias_sigma"] * part["noise_out"]
    return result


def _dueling(state: State, rows: Tensor) -> Tensor:
    """The logits of each action's returns: a common value, and what each action differs by."""
    value, advantage = (
        _noisy(_noisy(rows, state, f"{head}.0").relu(), state, f"{head}.2")
        for head in ("value", "advantage")
    )
    advantage = advantage.reshape(len(rows), -1, 9)
    return value.reshape(len(rows), 1, 9) + advantage - advantage.mean(dim=1, keepdim=True)


def _pmfs(state: State, obs: Tensor) -> Tensor:
    """The distribution of each action's return under the small network."""
    pixels = obs[:, :, ::7, ::7].flatten(1).float() / 255
    rows = nn.functional.linear(pixels, state["trunk.1.weight"], state["trunk.1.bias"]).relu()
    return _dueling(state, rows).softmax(dim=2)


def _with_noise_of(weights: State, noise: State) -> State:
    return {name: (noise if "noise" in name else weights)[name] for name in weights}


def _learns(turn: Turn) -> bool:
    return turn.step >= _START and turn.step % 5 == 0


def learns_from_rainbows_loss(subject: Subject) -> None:
    """Every so many steps, once learning has started, Adam takes one step along the gradient of
    the weighted cross entropy to the projected distribution of the discounted rewards of three
    steps plus what follows, where the network chooses the next action and the target judges it;
    the noise is that of the update, new for both networks.

    Each drawn transition then has its cross entropy, to the power alpha, as its priority. Every
    hundred steps the curves show the loss, the mean return expected of the actions taken, and how
    much of the bias of the priorities is corrected."""
    for turn in _turns(subject):
        if not _learns(turn):
            assert not reference.updated(turn), f"it learned in step {turn.step}"
            assert not turn.logged.keys() - {"charts/episodic_return"}
            continue
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
        beta = BETA + (1 - BETA) * turn.step / _STEPS
        weights = batch.chances.numpy() ** -beta
        errors = -(aim * taken.log()).sum(dim=1)
        loss = (errors * torch.from_numpy(weights / weights.max())).mean()
        gradients = torch.autograd.grad(loss, list(learned.values()))
        expected = torch.cat([part.flatten() for part in gradients])
        assert_learned(turn, expected, SETTINGS["learning_rate"], 1.5e-4)

        rows, priorities = turn.before["given"]
        np.testing.assert_array_equal(rows, batch.rows)
        wanted = (errors.detach().numpy() + EPS) ** ALPHA
        np.testing.assert_allclose(priorities, wanted, rtol=1e-3)
        if turn.step == 100:
            values = (taken @ torch.from_numpy(ATOMS)).mean().item()
            assert_logged(turn, td_loss=loss.item(), q_values=values)
            assert abs(turn.logged["charts/beta"] - beta) < 1e-6
        else:
            assert not turn.logged.keys() - {"charts/episodic_return"}


def returns_are_projected(subject: Subject) -> None:
    """Each possible return moves with the rewards, stays in the range, and its probability goes to
    its neighbours, to the nearer one more."""
    numbers = np.random.default_rng(1)
    pmfs = numbers.dirichlet(np.ones(9), 40).astype(np.float32)
    rewards, dones = numbers.normal(0, 2, 40).astype(np.float32), numbers.random(40) < 0.3
    discounts = numbers.random(40).astype(np.float32)
    expected = reference.projected(pmfs, rewards, discounts * (1 - dones), ATOMS)
    arrays = (pmfs, rewards, dones.astype(np.float32), discounts, ATOMS)
    actual = subject.module.project(*(torch.from_numpy(array) for array in arrays))
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def memory_holds_what_happened(subject: Subject) -> None:
    """What is drawn is a state and an action, the rewards of the next three steps and the state
    after them, or those up to the end of the episode; a lost life ends one."""
    turns = _turns(subject)
    steps = [turn.steps[0] for turn in turns]
    ended = 0
    for batch in (draw.batch for turn in turns for draw in turn.draws):
        columns = ("obs", "actions", "rewards", "next_obs", "dones")
        for row in zip(*(getattr(batch, name).numpy() for name in columns), strict=True):
            obs, action, rewards, next_obs, done = row
            began = [
                time
                for time, step in enumerate(steps)
                if step.actions[0] == action[0] and np.array_equal(step.obs[0], obs)
            ]
            ended += bool(done)
            assert any(
                np.array_equal(rewards, earned)
                and bool(done) == over
                and np.array_equal(next_obs, last)
                for earned, over, last in (_three_steps(steps[time : time + 3]) for time in began)
            )
    assert ended, "no transition that ended an episode was drawn"


def _three_steps(steps: list[Any]) -> tuple[list[float], bool, np.ndarray]:
    """Their rewards, whether the episode ended, and the last state."""
    rewards = [0.0, 0.0, 0.0]
    for number, step in enumerate(steps):
        rewards[number] = float(step.rewards[0])
        if step.terminated[0]:
            break
    return rewards, bool(step.terminated[0]), step.following[0]


def noise_is_new_in_every_update(subject: Subject) -> None:
    """Both networks draw noise in each update, and the acting one in each step before."""
    for turn in _turns(subject):
        learns = bool(reference.updated(turn))
        assert _noise_changed(turn, "q_network") == (turn.step < _START or learns)
        assert _noise_changed(turn, "target_network") == learns


def _noise_changed(turn: Turn, name: str) -> bool:
    noise = [key for key in turn.before[name] if "noise" in key]
    changed = {not torch.equal(turn.before[name][key], turn.after[name][key]) for key in noise}
    assert len(changed) == 1, "all layers or none"
    return changed.pop()


def acts_by_the_best_noisy_mean(subject: Subject) -> None:
    """The action with the largest expected return is taken, under the noise of the moment: it is
    what explores."""
    for turn in _turns(subject):
        state = turn.before["q_network"]
        if turn.step < _START:
            state = _with_noise_of(state, turn.after["q_network"])
        step = turn.steps[0]
        values = _pmfs(state, torch.from_numpy(step.obs)) @ torch.from_numpy(ATOMS)
        assert int(values.argmax()) == int(step.actions[0])


def target_follows_whether_or_not_it_learns(subject: Subject) -> None:
    """The target's weights are the network's at first, and move by tau every seven steps, also
    where no update falls."""
    assert_target_moves(_turns(subject), _START, 1)


def network_is_the_papers(subject: Subject) -> None:
    """Three convolutions, and two noisy layers of 512 units for the value and for the advantages.
    Weights begin within one over the root of the inputs, their noise with half of that; the noise
    of a layer is the product of one number for each input and output, the signed root of a normal
    one, and none where a trained policy is judged."""
    module = Subject(subject.file, subject.source).module
    envs = SimpleNamespace(
        single_observation_space=spaces.Box(0, 255, (4, 84, 84), np.uint8),
        single_action_space=spaces.Discrete(4),
    )
    torch.manual_seed(1)
    network = module.QNetwork(envs, module.Args(n_atoms=9, v_min=-2.0, v_max=2.0))
    first = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    np.testing.assert_allclose(first["atoms"], ATOMS, atol=1e-6)
    network.reset_noise()
    state = network.state_dict()
    for head, last in (("value", 9), ("advantage", 4 * 9)):
        for layer, inputs, outputs in ((f"{head}.0", 3136, 512), (f"{head}.2", 512, last)):
            part = {name.removeprefix(f"{layer}."): state[name] for name in state if layer in name}
            _assert_begins_well(part, inputs, outputs)
            for name in _BUFFERS:
                _assert_signed_roots(first[f"{layer}.{name}"])
                _assert_signed_roots(part[name])
                assert not torch.equal(first[f"{layer}.{name}"], part[name])

    obs = torch.randint(256, (3, 4, 84, 84), dtype=torch.uint8)
    silent = {name: state[name] * ("noise" not in name) for name in state}
    for numbers, judged in ((state, False), (silent, True)):
        network.train(not judged)
        with torch.no_grad():
            logits = network(obs)
        expected = _dueling(numbers, _convolved(numbers, obs))
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-5)


def _convolved(state: State, obs: Tensor) -> Tensor:
    maps = obs.float() / 255
    for layer, stride in (("trunk.1", 4), ("trunk.3", 2), ("trunk.5", 1)):
        weight, bias = state[f"{layer}.weight"], state[f"{layer}.bias"]
        maps = nn.functional.conv2d(maps, weight, bias, stride).relu()
    return maps.flatten(1)


def _assert_begins_well(layer: State, inputs: int, outputs: int) -> None:
    bound = 1 / math.sqrt(inputs)
    assert layer["weight_mu"].shape == (outputs, inputs)
    for drawn in (layer["weight_mu"], layer["bias_mu"]):
        assert float(drawn.abs().max()) <= bound * (1 + 1e-6)
        assert float(drawn.abs().max()) > 0.8 * bound
        # Uniform numbers; of the smallest layer there are nine.
        assert 0.3 * bound < float(drawn.std()) < 0.8 * bound
    spread = torch.full((outputs, inputs), 0.5 * bound)
    torch.testing.assert_close(layer["weight_sigma"], spread)
    torch.testing.assert_close(layer["bias_sigma"], torch.full((outputs,), 0.5 / outputs**0.5))


def _assert_signed_roots(noise: Tensor) -> None:
    """The signed root of a normal number: its square has the mean 0.8, its fourth power 1."""
    assert abs(float(noise.sign().mean())) < 0.8
    if len(noise) >= 512:
        assert abs(float(noise.mean())) < 0.15
        assert 0.7 < float(noise.square().mean()) < 0.9
        assert 0.75 < float(noise.pow(4).mean()) < 1.25


_LOSS = (learns_from_rainbows_loss,)
_NOISE = (noise_is_new_in_every_update,)
_TARGET = (target_follows_whether_or_not_it_learns,)
_NETWORK = (network_is_the_papers,)
_MEMORY = (memory_holds_what_happened,)
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
        _LOSS,
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
    Mutant(
        FILE,
        "    target_network.load_state_dict(q_network.state_dict())\n",
        "",
        "the target network begins as a stranger",
        _TARGET,
    ),
    Mutant(
        FILE,
        "global_step % args.train_frequency == 0",
        "global_step >= args.learning_starts",
        "it learns in every step, whatever was asked for",
        _LOSS,
    ),
    Mutant(FILE, ", eps=1.5e-4", "", "another Adam than the paper's", _LOSS),
    Mutant(
        FILE,
        "global_step % 100 == 0",
        "global_step % 1000 == 0",
        "the curves have a point in a thousand steps, not ten",
        _LOSS,
    ),
    Mutant(
        FILE,
        "errors.detach(), loss.detach(), old_value.mean()",
        "errors.detach(), errors.detach().mean(), old_value.mean()",
        "the curve shows another loss than the one that is learned from",
        _LOSS,
    ),
    Mutant(
        FILE,
        "upper = (lower + 1).clamp(max=len(atoms) - 1)",
        "upper = lower + 1 - lower // (len(atoms) - 2)",
        "what falls next to the largest return is counted below it",
        (returns_are_projected,),
    ),
    Mutant(
        FILE,
        "memory.add(obs, actions, rewards, terminated, info)",
        "memory.add(obs, actions, rewards, terminated & False, info)",
        "a lost life is no end",
        _MEMORY,
    ),
    Mutant(
        FILE,
        "n_step=args.n_step",
        "n_step=args.n_step - 1",
        "the rewards of one step too few",
        (*_MEMORY, *_LOSS),
    ),
    Mutant(
        FILE,
        "return q_values(obs).argmax(dim=1)",
        "return q_network(obs).amax(dim=2).argmax(dim=1)",
        "acts by the likeliest return, not by the mean",
        (acts_by_the_best_noisy_mean,),
    ),
    Mutant(
        FILE,
        "noise.copy_(noise.sign() * noise.abs().sqrt())",
        "pass",
        "the noise has longer tails than the paper's",
        _NETWORK,
    ),
    Mutant(
        FILE,
        "std_init * bound",
        "std_init",
        "the noise is so large that nothing else counts",
        _NETWORK,
    ),
    Mutant(
        FILE,
        "if not self.training:",
        "if False:",
        "a trained policy is judged with the noise of exploration",
        _NETWORK,
    ),
    Mutant(
        FILE,
        "    run.check_spaces(envs)\n",
        "",
        "games with other buttons or frames are not refused",
        (plays_the_game_that_was_asked_for,),
    ),
]
HARMLESS = [
    Harmless(
        "lower = b.floor().clamp(0, len(atoms) - 1)",
        "len(atoms) - 1",
        "(len(atoms)) + (1)",
        "it guards against rounding: no return is above the largest",
        ("rainbow_atari",),
    ),
    Harmless(
        "lower = b.floor().clamp(0, len(atoms) - 1)",
        "1",
        "2",
        "what falls on the largest return is all given to it, as the upper neighbour of the last",
        ("rainbow_atari",),
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
