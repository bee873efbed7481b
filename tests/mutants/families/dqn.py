"""DQN: what its target, its loss, its target network and its exploration must be.

C51 only differs in its network and its loss, so its checks are built of what is here too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mutants import reference
from mutants.harmless import Harmless
from mutants.learning import CATCH, Learning
from mutants.noise_envs import DISCRETE
from mutants.rollouts import games_made
from mutants.subject import Check, Mutant, Subject
from mutants.trial import State, Turn, rehearse

GAMMA, TAU, LEARNING_RATE = 0.9, 0.3, 1e-2
ATOMS = np.linspace(-3, 3, 11, dtype=np.float32)
FLAT: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 60,
    "learning_starts": 20,
    "buffer_size": 64,
    "batch_size": 16,
    "train_frequency": 3,
    "target_network_frequency": 7,
    "gamma": GAMMA,
    "learning_rate": LEARNING_RATE,
}
FRAMES: dict[str, Any] = {
    **FLAT,
    "env_id": "mosaic/Catch-v0",
    "total_timesteps": 24,
    "learning_starts": 10,
    "batch_size": 4,
    "learning_rate": 1e-3,
}
# Two environments, learning from shortly before the hundredth step, where curves get their points.
_START = 90
_WHOLE: dict[str, Any] = {
    "num_envs": 2,
    "total_timesteps": 112,
    "learning_starts": _START,
    "train_frequency": 5,
    "batch_size": 32,
    "tau": TAU,
}


def turns_of(subject: Subject, **arguments: object) -> list[Turn]:
    """Rehearse DQN or C51, with flat observations or with frames."""
    settings = dict(FRAMES if "atari" in subject.name else FLAT)
    if "c51" in subject.name:
        settings |= {"n_atoms": len(ATOMS), "v_min": float(ATOMS[0]), "v_max": float(ATOMS[-1])}
    return rehearse(subject.module, **{**settings, **arguments})


@lru_cache(maxsize=1)
def whole_run(subject: Subject) -> list[Turn]:
    """A run that most checks look at, each for another promise; JAX compiles it for seconds."""
    return turns_of(subject, **_WHOLE)


def network_of(subject: Subject, state: Any) -> nn.Module:
    """The network of the paper in plain torch, with saved numbers."""
    outputs = len(ATOMS) if "c51" in subject.name else 1
    frames = "atari" in subject.name
    network = reference.nature_cnn(4 * outputs) if frames else _mlp(3 * outputs)
    return reference.load(network, _in_torch(state), without=("atoms",))


def _mlp(outputs: int) -> nn.Module:
    return reference.mlp([3, 120, 84, outputs])


def outputs_of(subject: Subject, network: nn.Module, obs: Tensor) -> Tensor:
    """What a network says, one row for each action, about each observation."""
    rows = obs / 255 if "atari" in subject.name else obs
    outputs: Tensor = network(rows).reshape(len(obs), 4 if "atari" in subject.name else 3, -1)
    return outputs


def _layers(params: Any) -> list[Any]:
    """The layers of one of JAX's trees, from the observation to the outputs."""
    if isinstance(params, list):
        return params
    return [*params["trunk"]["convs"], params["trunk"]["hidden"], params["head"]]


def _in_torch(state: Any) -> State:
    """A saved network as torch would hold it, also if it is one of JAX's."""
    if isinstance(state, dict) and "trunk" not in state:
        return state
    tensors: State = {}
    for number, layer in enumerate(_layers(state)):
        weight = torch.from_numpy(np.array(layer["kernel"]))
        if weight.ndim == 2 and len(weight) == 3136:  # JAX has the channels of a picture last
            weight = weight.unflatten(0, (7, 7, 64))
        weight = weight.permute(3, 2, 0, 1) if weight.ndim == 4 else weight.T
        if len(weight) == 512:
            weight = weight.flatten(1)
        tensors[f"{number}.weight"] = weight
        tensors[f"{number}.bias"] = torch.from_numpy(np.array(layer["bias"]))
    return tensors


def _numbers(state: Any) -> Tensor:
    """All learned numbers of a saved network, in torch's order."""
    learned = {
        name: tensor
        for name, tensor in _in_torch(state).items()
        if name != "atoms" and "noise" not in name
    }
    return reference.flat(learned)


def _adam(state: Any) -> tuple[Tensor, Tensor, int]:
    """Adam's two moments and the number of its steps."""
    if isinstance(state, tuple):  # of optax
        return _numbers(state[0].mu), _numbers(state[0].nu), int(state[0].count)
    return state["mean"], state["square"], int(state["step"])


def assert_learned(turn: Turn, expected: Tensor, rate: float, eps: float) -> None:
    """The network took one step of Adam (Kingma and Ba, 2015) along the expected gradient."""
    (mean, square, count), (next_mean, next_square, next_count) = (
        _adam(state["optimizer"]) for state in (turn.before, turn.after)
    )
    assert next_count == count + 1
    gradient = (next_mean - 0.9 * mean) / (1 - 0.9)
    reference.assert_same_gradient(gradient, expected)
    spread = 0.999 * square + 0.001 * gradient.square()
    torch.testing.assert_close(next_square, spread, rtol=1e-3, atol=1e-6 * float(spread.max()))
    size = (next_square / (1 - 0.999**next_count)).sqrt() + eps
    wanted = rate / (1 - 0.9**next_count) * next_mean / size
    moved = _numbers(turn.before["q_network"]) - _numbers(turn.after["q_network"])
    torch.testing.assert_close(moved, wanted, rtol=1e-3, atol=2e-3 * rate)


def assert_logged(turn: Turn, **expected: float) -> None:
    """A turn's curves of losses have these values, and there are no others."""
    logged = {
        name.removeprefix("losses/"): value
        for name, value in turn.logged.items()
        if name.startswith("losses/")
    }
    assert logged.keys() == expected.keys()
    np.testing.assert_allclose(
        list(logged.values()), [expected[name] for name in logged], rtol=1e-3, atol=1e-5
    )


Loss = Callable[[Subject, Turn, nn.Module, nn.Module], tuple[Tensor, Tensor]]


def assert_learns(subject: Subject, loss_of: Loss, name: str, eps: float) -> None:
    """It learns every five steps from step 90 on, and tells how every hundred.

    Args:
        subject: the file.
        loss_of: the loss and the values of the actions taken, from a turn, the network that learns
            and the target network.
        name: what the loss is called.
        eps: Adam's.
    """
    rate = 1e-3 if "atari" in subject.name else LEARNING_RATE
    for turn in whole_run(subject):
        if turn.step < _START or turn.step % 5 >= 2:
            assert not reference.updated(turn), f"it learned in step {turn.step}"
            assert_logged(turn)
            continue
        online, target = (
            network_of(subject, turn.before[key]) for key in ("q_network", "target_network")
        )
        assert len(turn.draws) == 1
        loss, values = loss_of(subject, turn, online, target)
        assert_learned(turn, reference.gradient_of(loss, online), rate, eps)
        told = {name: loss.item(), "q_values": values.mean().item()} if turn.step == 100 else {}
        assert_logged(turn, **told)


def _squared_error(
    subject: Subject, turn: Turn, online: nn.Module, target: nn.Module
) -> tuple[Tensor, Tensor]:
    batch = turn.draws[0].batch
    following = outputs_of(subject, target, batch.next_obs)[:, :, 0].detach()
    aim = batch.rewards + GAMMA * following.max(dim=1).values * (1 - batch.dones)
    each = torch.arange(len(aim))
    taken = outputs_of(subject, online, batch.obs)[each, batch.actions[:, 0], 0]
    return ((taken - aim) ** 2).mean(), taken


def learns_from_the_squared_error(subject: Subject) -> None:
    """Every so many steps, once learning has started, Adam takes one step along the gradient of
    the mean squared difference to the reward plus the discounted largest value of the next state
    under the target network, zero after the end. Every hundred steps the curves show that mean
    and the mean value of the actions taken."""
    assert_learns(subject, _squared_error, "td_loss", 1e-8)


def memory_holds_what_happened(subject: Subject) -> None:
    """Truncation is no end, and no transition leads into the next episode."""
    reference.assert_true_transitions(whole_run(subject))


def memory_of_frames_holds_what_happened(subject: Subject) -> None:
    """A lost life ends an episode, and stacks never mix two games."""
    reference.assert_true_transitions(whole_run(subject), frozenset({"terminated", "ordinary"}))


def target_network_moves_when_it_should(subject: Subject) -> None:
    """The target is equal to the network at the start, and moves by tau every seven steps once
    learning has started, whether or not the network learns in that step."""
    assert_target_moves(whole_run(subject), _START, 2)


def assert_target_moves(turns: list[Turn], start: int, num_envs: int) -> None:
    """The target is equal at first, and moves by tau every seven steps from the start on."""
    first = turns[0].before
    assert torch.equal(_numbers(first["target_network"]), _numbers(first["q_network"]))
    for turn in turns:
        moves = turn.step >= start and turn.step % 7 < num_envs
        if not moves and turn.after["target_network"] is turn.before["target_network"]:
            continue  # a state that has not changed is not copied
        before, after, ahead = (
            _numbers(state)
            for state in (
                turn.before["target_network"],
                turn.after["target_network"],
                turn.after["q_network"],
            )
        )
        tau = TAU if moves else 0.0
        torch.testing.assert_close(after, (1 - tau) * before + tau * ahead, rtol=1e-5, atol=1e-7)


def best_actions(subject: Subject, turns: list[Turn]) -> list[int]:
    """The action with the largest value, or the largest mean, in each turn of a run that does not
    learn."""
    network = network_of(subject, turns[0].before["q_network"])
    obs = torch.from_numpy(np.concatenate([turn.steps[0].obs for turn in turns]))
    outputs = outputs_of(subject, network, obs)
    if "c51" in subject.name:
        outputs = outputs.softmax(dim=2) @ torch.from_numpy(ATOMS)[:, None]
    best: list[int] = outputs[:, :, 0].argmax(dim=1).tolist()
    return best


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Actions are random at first, and greedy ever more often until half of the run is over; then
    the greedy one is taken, except with probability end-e."""
    count = 200 if "atari" in subject.name else 400
    settings = {"exploration_fraction": 0.5, "end_e": 0.1, "learning_starts": count}
    turns = turns_of(subject, total_timesteps=count, **settings)
    best = best_actions(subject, turns)
    greedy = [int(turn.steps[0].actions[0]) == one for turn, one in zip(turns, best, strict=True)]
    fifth = count // 5
    assert np.mean(greedy[:fifth]) < 0.65
    assert 0.6 < np.mean(greedy[fifth * 3 // 2 : fifth * 5 // 2]) < 0.9
    assert 0.85 < np.mean(greedy[count // 2 :]) < 0.99


def starts_without_anything_to_draw(subject: Subject) -> None:
    """With --learning-starts 0 learning begins as soon as there is something to learn from."""
    turns = turns_of(subject, learning_starts=0, train_frequency=1, total_timesteps=6)
    assert sum(reference.updated(turn) for turn in turns) >= 4


def plays_the_game_that_was_asked_for(subject: Subject) -> None:
    """So many games of that name are made, filmed where that was asked for, and the run looks at
    their frames and buttons before anything is learned from them."""
    module = Subject(subject.file, subject.source).module
    asked = games_made(module, "AtariEnvs", env_id="mosaic/Catch-v0", num_envs=3)
    assert asked == {"env_id": "mosaic/Catch-v0", "num_envs": 3, "video_dir": None}


def first_weights_are_random(subject: Subject) -> None:
    """Each layer begins with weights of its own, with the spread of LeCun's rule (one over the root
    of its inputs), and without a bias; C51's for flat observations with the narrower one of
    torch."""
    wanted = 3**-0.5 if subject.name == "c51_jax" else 1.0
    firsts = []
    for layer in _layers(whole_run(subject)[0].before["q_network"]):
        kernel = np.asarray(layer["kernel"])
        inputs = kernel.size // kernel.shape[-1]
        spread = float(kernel.std()) * inputs**0.5
        assert abs(spread / wanted - 1) < 0.1
        firsts.append(kernel.ravel()[:200] / kernel.std())
        assert not np.asarray(layer["bias"]).any()
    alike = np.corrcoef(firsts) - np.eye(len(firsts))
    assert abs(alike).max() < 0.5


def mutants_of_exploration(file: str) -> list[Mutant]:
    """Those of the lines with which DQN and C51 explore."""
    explores = (exploration_falls_from_random_to_greedy,)
    return [
        Mutant(file, "run.rng.random() < epsilon", "False", "no exploration", explores),
        Mutant(
            file,
            "args.exploration_fraction * args.total_timesteps",
            "args.total_timesteps",
            "exploration lasts for the whole run",
            explores,
        ),
    ]


def mutants_of_games(file: str) -> list[Mutant]:
    """Those of the lines with which DQN and C51 play and remember games."""
    return [
        Mutant(
            file,
            "    run.check_spaces(envs)\n",
            "",
            "games with other buttons or frames are not refused",
            (plays_the_game_that_was_asked_for,),
        ),
        Mutant(
            file,
            "memory.add(obs, actions, rewards, terminated, info)",
            "memory.add(obs, actions, rewards, terminated & False, info)",
            "a lost life is no end",
            (memory_of_frames_holds_what_happened,),
        ),
        Mutant(
            file,
            " or not memory.ready",
            "",
            "nothing to draw at the start",
            (starts_without_anything_to_draw,),
        ),
    ]


def _mutants(name: str) -> list[Mutant]:
    file = f"cleanrl/{name}.py"
    in_jax, frames = "jax" in name, "atari" in name
    gradient: tuple[Check, ...] = (learns_from_the_squared_error,)
    target: tuple[Check, ...] = (target_network_moves_when_it_should,)
    explores: tuple[Check, ...] = (exploration_falls_from_random_to_greedy,)
    memory: tuple[Check, ...] = (
        (memory_of_frames_holds_what_happened,) if frames else (memory_holds_what_happened,)
    )
    ends = ' * (1 - data["dones"])' if in_jax else " * (1 - dones)"
    online, slow = ("params, ", "target_params, ") if in_jax else ("q_network(", "target_network(")
    if in_jax:
        best = f'q_values({slow}data["next_obs"]).max(axis=1)'
        taken = ('data["actions"], axis=1)', '0 * data["actions"], axis=1)')
        moves = "q_network.value, target_network.value, args.tau\n"
        stuck = "target_network.value, target_network.value, args.tau\n"
        jumps = "q_network.value, target_network.value, 1.0\n"
        average = best.replace("max(", "mean(")
        itself = ('data["next_obs"]).max', 'data["obs"]).max')
        told = ("old_value.mean()", "old_value.sum()")
        copied = "target_network = Tree(q_network.value)"
        other = "target_network = Tree(init_q_network(envs, jax.random.PRNGKey(0)))"
        rate = ("optax.adam(args.learning_rate)", "optax.adam(2.5e-4)")
    else:
        best, average = f"{slow}next_obs).amax(dim=1)", f"{slow}next_obs).mean(dim=1)"
        taken = (".gather(1, actions)", ".gather(1, 0 * actions)")
        moves, stuck = "target.lerp_(source, args.tau)", "target.lerp_(source, 0.0)"
        jumps = "target.lerp_(source, 1.0)"
        itself = (f"{slow}next_obs)", f"{slow}obs)")
        told = ("old_value.detach().mean()", "old_value.detach().sum()")
        copied, other = "target_network.load_state_dict(q_network.state_dict())", "pass"
        rate = ("parameters(), args.learning_rate)", "parameters(), 2.5e-4)")
    found = [
        Mutant(file, ends, "", "the future counts after the end of an episode", gradient),
        Mutant(file, best, best.replace(slow, online), "no target network", gradient),
        Mutant(file, best, average, "the average of the next values, not the best", gradient),
        Mutant(file, *itself, "the value of the state itself, not of the next one", gradient),
        Mutant(file, *taken, "the value of another action learns", gradient),
        Mutant(file, moves, stuck, "the target network never moves", target),
        Mutant(file, moves, jumps, "tau is ignored", target),
        Mutant(
            file,
            "run.rng.random() < epsilon",
            "run.rng.random() < args.start_e",
            "exploration never ends",
            explores,
        ),
        *mutants_of_exploration(file),
        Mutant(
            file,
            "global_step % args.train_frequency < args.num_envs",
            "global_step >= args.learning_starts",
            "it learns in every step, whatever was asked for",
            gradient,
        ),
        Mutant(file, *rate, "the learning rate is not the one asked for", gradient),
        Mutant(file, *told, "the curve shows the sum of the values, not their mean", gradient),
        Mutant(
            file,
            "global_step % 100 < args.num_envs",
            "global_step % 1000 < args.num_envs",
            "the curves have a point in a thousand steps, not ten",
            gradient,
        ),
        Mutant(file, copied, other, "the target network begins as a stranger", target),
    ]
    if in_jax:
        key = "keys[0], 8" if frames else "keys[0], inputs"
        found.append(
            Mutant(
                file,
                key,
                key.replace("0", "1"),
                "two layers begin with the same numbers",
                (first_weights_are_random,),
            )
        )
    if frames:
        found += mutants_of_games(file)
    else:
        found += [
            Mutant(
                file,
                'info.get("final_obs", next_obs)',
                "next_obs",
                "the reset state as the next state",
                memory,
            ),
            Mutant(
                file,
                "actions, rewards, terminated)",
                "actions, rewards, terminated | bool(info))",
                "truncation taken as an end",
                memory,
            ),
        ]
    return found


MUTANTS = [mutant for name in ("dqn", "dqn_atari", "dqn_jax") for mutant in _mutants(name)]
MUTANTS += [replace(mutant, slow=True) for mutant in _mutants("dqn_atari_jax")]

_SPARE_KEY = "the extra keys are never used, and the others are just as random"
_LAST_KEY = "JAX takes the last key where there are fewer"
HARMLESS = [
    Harmless("keys = jax.random.split(key, 3)", "3", "6", _SPARE_KEY, ("dqn_jax", "c51_jax")),
    Harmless("dense(keys[2], 84", "2", "4", _LAST_KEY, ("dqn_jax", "c51_jax")),
    Harmless(
        "keys = jax.random.split(trunk_key, 4)",
        "4",
        "8",
        _SPARE_KEY,
        ("dqn_atari_jax", "c51_atari_jax"),
    ),
    Harmless("dense(keys[3]", "3", "6", _LAST_KEY, ("dqn_atari_jax", "c51_atari_jax")),
]

_CARTPOLE = (
    "--total-timesteps 25000 --learning-starts 1000 --exploration-fraction 0.3 "
    "--target-network-frequency 250 --learning-rate 1e-3"
)
_CATCH = (
    f"{CATCH} --total-timesteps 8000 --learning-starts 1000 --buffer-size 8000 "
    "--exploration-fraction 0.4 --target-network-frequency 500 --learning-rate 3e-4"
)
_NOTHING = "--total-timesteps 1000"
LEARNING = [
    Learning("dqn", f"{_CARTPOLE} --seed 2", _NOTHING, 2),
    # With the other's seed its untrained policy balances by chance, for 127 steps.
    Learning("dqn_jax", f"{_CARTPOLE} --seed 3", _NOTHING, 2, slow=True),
    Learning("dqn_atari", _CATCH, _NOTHING, 5, slow=True),
    Learning("dqn_atari_jax", _CATCH, _NOTHING, 5, slow=True),
]
