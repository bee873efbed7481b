"""What a critic expects inside an episode: the number of the checkpoint, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from cleanrl_worker.kit.inference import thought_of
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running import checkpoints
from cleanrl_worker.running.evaluation import open_policy
from cleanrl_worker.running.verification import train

Weights = dict[str, Tensor]
CATCH = "mosaic/Catch-v0"
STEPS = 4
ALIKE = {"rel": 1e-4, "abs": 1e-5}


def _trained(algorithm: str, folder: Path, *flags: str) -> Path:
    """The policy file of a run that is just long enough to have one."""
    train(algorithm, folder / "run", "--smoke", *flags)
    [policy] = (folder / "run" / "checkpoints").glob("*.cleanrl_model")
    return policy


def _turns(policy_file: Path) -> Iterator[tuple[Tensor, np.ndarray, float]]:
    """Some steps of an episode: what was seen, the action, and the reported value."""
    trained = open_policy(policy_file)
    envs = trained.make_envs(1)
    policy, rng = trained.rebuild(envs), Random(1)
    obs = envs.reset(seed=3)
    for _ in range(STEPS):
        seen = torch.from_numpy(obs.copy())
        actions = policy(obs, rng, True)
        thought = thought_of(policy)
        assert thought is not None
        assert thought.value is not None
        yield seen, actions, float(thought.value[0])
        obs, *_ = envs.step(actions)
    envs.close()


def _model(policy_file: Path) -> dict[str, Any]:
    model: dict[str, Any] = checkpoints.load(policy_file)["model"]
    return model


def _linear(weights: Weights, name: str, rows: Tensor) -> Tensor:
    return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _pixels(weights: Weights, prefix: str, obs: Tensor, *layers: int) -> Tensor:
    """The usual three convolutions and the linear layers after them, all with ReLU."""
    rows = obs.float() / 255
    for number, stride in zip(layers[:3], (4, 2, 1), strict=True):
        bias = weights[f"{prefix}{number}.bias"]
        rows = F.conv2d(rows, weights[f"{prefix}{number}.weight"], bias, stride).relu()
    rows = rows.flatten(1)
    for number in layers[3:]:
        rows = _linear(weights, f"{prefix}{number}", rows).relu()
    return rows


def _mlp(weights: Weights, rows: Tensor) -> Tensor:
    for number in (0, 2):
        rows = _linear(weights, f"network.{number}", rows).relu()
    return _linear(weights, "network.4", rows)


@pytest.mark.prove
def test_a_policy_with_an_lstm_tells_its_critics_value(tmp_path: Path) -> None:
    """The value follows the memory step by step, and asking for it does not disturb the memory."""
    file = _trained("ppo_atari_lstm", tmp_path, "--env-id", CATCH)
    agent = _model(file)["agent"]
    hidden = agent["actor.weight"].shape[1]
    output, cell = torch.zeros(1, hidden), torch.zeros(1, hidden)
    for obs, _, told in _turns(file):
        features = _pixels(agent, "network.", obs, 1, 3, 5, 8)
        gates = features @ agent["lstm.weight_ih_l0"].T + agent["lstm.bias_ih_l0"]
        gates += output @ agent["lstm.weight_hh_l0"].T + agent["lstm.bias_hh_l0"]
        take, keep, new, show = gates.chunk(4, dim=1)
        cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
        output = show.sigmoid() * cell.tanh()
        assert told == pytest.approx(_linear(agent, "critic", output).item(), **ALIKE)


@pytest.mark.prove
def test_a_compiled_policy_with_an_lstm_tells_its_critics_value(tmp_path: Path) -> None:
    """The twin on the device tells the value of its own critic."""
    file = _trained("ppo_rnn_ondevice", tmp_path)
    flat = _model(file)["agent"]
    params = {path: torch.as_tensor(np.asarray(values)) for path, values in flat.items()}

    def part(*words: str) -> Tensor:
        [found] = [v for path, v in params.items() if all(word in path for word in words)]
        return found.float()

    hidden = part("actor", "kernel").shape[0]
    output, cell = torch.zeros(1, hidden), torch.zeros(1, hidden)
    for obs, _, told in _turns(file):
        seen = (obs.float() @ part("trunk", "kernel") + part("trunk", "bias")).tanh()
        gates = seen @ part("lstm", "kernel") + part("lstm", "bias")
        gates += output @ part("lstm", "recurrent")
        take, keep, new, show = gates.chunk(4, dim=1)
        cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
        output = show.sigmoid() * cell.tanh()
        value = output @ part("critic", "kernel") + part("critic", "bias")
        assert told == pytest.approx(value.item(), **ALIKE)


@pytest.mark.prove
def test_a_curious_policy_tells_the_value_of_the_game(tmp_path: Path) -> None:
    """RND has two critics; the one for the game's own reward is reported, not curiosity's."""
    file = _trained("ppo_rnd_envpool", tmp_path)
    agent = _model(file)["agent"]
    for obs, _, told in _turns(file):
        hidden = _pixels(agent, "network.", obs, 1, 3, 5, 8, 10)
        features = hidden + _linear(agent, "extra_layer.0", hidden).relu()
        assert told == pytest.approx(_linear(agent, "critic_ext", features).item(), **ALIKE)


def test_a_transformer_tells_its_critics_value(tmp_path: Path) -> None:
    """Attention over the episode so far, worked out head by head."""
    file = _trained("ppo_trxl", tmp_path, "--env-id", "CartPole-v1")
    agent, args = _model(file)["agent"], checkpoints.load(file)["args"]
    heads, layers = args["trxl_num_heads"], args["trxl_num_layers"]
    past: list[list[Tensor]] = [[] for _ in range(layers)]
    for obs, _, told in _turns(file):
        now = _linear(agent, "encoder", obs.flatten(1)).relu()
        for number in range(layers):
            entered, memory = now, past[number]
            ago = agent["ago"][len(agent["ago"]) - len(memory) :]
            now = _attended(agent, f"layers.{number}.", now, memory, ago, heads)
            memory.append(entered)
        hidden = _linear(agent, "hidden", now).relu()
        assert told == pytest.approx(_linear(agent, "critic", hidden).item(), **ALIKE)


def _attended(
    agent: Weights, name: str, now: Tensor, memory: list[Tensor], ago: Tensor, heads: int
) -> Tensor:
    """One layer: what the present takes from the past, and the layer of its own."""

    def norm(which: str, rows: Tensor) -> Tensor:
        weight, bias = agent[f"{name}{which}.weight"], agent[f"{name}{which}.bias"]
        return F.layer_norm(rows, rows.shape[-1:], weight, bias)

    query = norm("norm_query", now)
    seen = [norm("norm_past", row + place) for row, place in zip(memory, ago, strict=True)]
    keys = torch.cat([*seen, query])
    made = agent[f"{name}attention.in_proj_weight"], agent[f"{name}attention.in_proj_bias"]
    weight, bias = (part.chunk(3) for part in made)
    asked = query @ weight[0].T + bias[0]
    known, worth = keys @ weight[1].T + bias[1], keys @ weight[2].T + bias[2]
    size = asked.shape[1] // heads
    parts = []
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        share = (asked[:, own] @ known[:, own].T / math.sqrt(size)).softmax(dim=1)
        parts.append(share @ worth[:, own])
    now = now + _linear(agent, f"{name}attention.out_proj", torch.cat(parts, dim=1))
    return now + _linear(agent, f"{name}projection", norm("norm_out", now)).relu()


@pytest.fixture(scope="module")
def sac(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy file of SAC."""
    folder = tmp_path_factory.mktemp("sac")
    return _trained("sac_continuous_action", folder, "--env-id", "Pendulum-v1")


def _judged(policy_file: Path, critics: list[Weights]) -> None:
    """Every value is the smallest that the critics have for the action taken."""
    for obs, actions, told in _turns(policy_file):
        rows = torch.cat([obs, torch.from_numpy(actions)], dim=1)
        values = [_mlp(critic, rows).item() for critic in critics]
        assert told == pytest.approx(min(values), **ALIKE)
        assert len(values) < 2 or values[0] != values[1], "the critics are two"


def test_sac_tells_what_its_critics_expect_of_the_action(sac: Path) -> None:
    """The smaller of both soft values of the action that was taken."""
    model = _model(sac)
    _judged(sac, [model[name] for name in ("qf1", "qf2")])


@pytest.mark.parametrize(
    ("algorithm", "critics"),
    [("td3_continuous_action", ("qf1", "qf2")), ("ddpg_continuous_action", ("qf1",))],
)
def test_a_deterministic_actor_is_judged_by_its_critics(
    tmp_path: Path, algorithm: str, critics: tuple[str, ...]
) -> None:
    """TD3 believes the smaller value, DDPG has one critic."""
    file = _trained(algorithm, tmp_path)
    model = _model(file)
    _judged(file, [model[name] for name in critics])


def _compiled(saved: dict[str, Any], critic: str) -> Weights:
    """The layers of a critic that JAX has trained, under the names of torch."""
    own = {
        path.removeprefix(critic): np.asarray(part)
        for path, part in saved.items()
        if critic in path
    }
    kinds = {"kernel": ("weight", True), "bias": ("bias", False)}
    named: Weights = {}
    for path, part in own.items():
        place, kind = (word.strip("'[]") for word in path.split("]["))
        name, turned = kinds[kind]
        named[f"network.{2 * int(place)}.{name}"] = torch.tensor(part.T if turned else part)
    return named


@pytest.mark.prove
@pytest.mark.parametrize(
    ("algorithm", "part", "critics"),
    [
        ("td3_continuous_action_jax", "critics", ("['qf1']", "['qf2']")),
        ("ddpg_continuous_action_jax", "qf1", ("",)),
        ("sac_ondevice", "critics", ("['qf1']", "['qf2']")),
        ("td3_ondevice", "critics", ("['qf1']", "['qf2']")),
    ],
)
def test_compiled_critics_tell_what_they_expect(
    tmp_path: Path, algorithm: str, part: str, critics: tuple[str, ...]
) -> None:
    """The same of the files in JAX and of those on the device."""
    file = _trained(algorithm, tmp_path)
    saved = _model(file)[part]
    _judged(file, [_compiled(saved, critic) for critic in critics])


@pytest.mark.prove
def test_the_critics_of_several_seeds_stay_with_their_actors(tmp_path: Path) -> None:
    """Of a run that trained two seeds, the critics of the seed that acts are asked."""
    file = _trained("sac_ondevice", tmp_path, "--num-seeds", "2")
    returns = _model(file)["returns"]
    index = max((float(value), -int(seed)) for seed, value in returns.items())[1] == -2
    saved = {path: values[int(index)] for path, values in _model(file)["critics"].items()}
    _judged(file, [_compiled(saved, critic) for critic in ("['qf1']", "['qf2']")])


@pytest.mark.prove
def test_sac_for_pixels_tells_what_its_policy_expects(tmp_path: Path) -> None:
    """The mean over the policy's actions of the smaller of both soft values."""
    file = _trained("sac_atari", tmp_path, "--env-id", CATCH)
    model = _model(file)
    for obs, _, told in _turns(file):
        made = {}
        for name in ("actor", "qf1", "qf2"):
            hidden = _pixels(model[name], "", obs, 1, 3, 5, 8)
            made[name] = _linear(model[name], "10", hidden)
        shares = made["actor"].softmax(dim=1)
        value = (shares * torch.minimum(made["qf1"], made["qf2"])).sum()
        assert told == pytest.approx(value.item(), **ALIKE)


def test_a_policy_file_without_critics_still_acts(sac: Path) -> None:
    """Files of earlier releases hold the actor alone: it plays, and no value is reported."""
    trained = open_policy(sac)
    for name in ("qf1", "qf2"):
        del trained.model[name]
    envs = trained.make_envs(1)
    policy = trained.rebuild(envs)
    policy(envs.reset(seed=1), Random(1), True)
    thought = thought_of(policy)
    envs.close()
    assert thought is not None
    assert thought.value is None
