"""The scripts in JAX agree with independent computations, and refuse in sentences.

`make prove` lets each of them learn.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from cleanrl_worker.agents import jax_layers
from cleanrl_worker.cleanrl import (
    c51_atari_jax,
    c51_jax,
    dqn_jax,
    ppo_atari,
    ppo_atari_envpool_xla_jax,
    ppo_atari_envpool_xla_jax_scan,
    rainbow_atari,
)
from cleanrl_worker.kit import device
from cleanrl_worker.kit.jax_backend import Tree, arrays, jax, trained
from cleanrl_worker.kit.replay import Batch
from cleanrl_worker.running.verification import run_script, train


@pytest.mark.parametrize("script", [c51_jax, c51_atari_jax])
def test_c51_projects_like_rainbow_in_torch(script: Any) -> None:
    """Two ways to project a distribution, scattering and weighing by distance, agree."""
    rng = np.random.default_rng(0)
    atoms = np.linspace(-10, 10, 51, dtype=np.float32)
    pmfs = rng.dirichlet(np.ones(51), size=64).astype(np.float32)
    rewards = rng.normal(0, 8, 64).astype(np.float32)
    dones = (rng.random(64) < 0.3).astype(np.float32)
    ours = np.asarray(script.project(pmfs, rewards, dones, 0.95, atoms))
    discounts = np.full(64, 0.95, np.float32)
    tensors = map(torch.from_numpy, (pmfs, rewards, dones, discounts, atoms))
    scattered = rainbow_atari.project(*tensors).numpy()
    np.testing.assert_allclose(ours, scattered, atol=1e-5)
    np.testing.assert_allclose(ours.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("script", [c51_jax, c51_atari_jax])
def test_c51_moves_every_atom_to_its_two_neighbours(script: Any) -> None:
    """Atom by atom: mass is kept and shared by distance, beyond the range it piles up at its
    end, and a terminated transition keeps only the reward."""
    rng = np.random.default_rng(1)
    atoms = np.linspace(-10, 10, 21, dtype=np.float32)
    pmfs = rng.dirichlet(np.ones(21), size=40).astype(np.float32)
    rewards = np.concatenate([rng.normal(0, 6, 36), [0.0, 1.0, 30.0, -30.0]]).astype(np.float32)
    dones = (rng.random(40) < 0.3).astype(np.float32)
    projected = np.asarray(script.project(pmfs, rewards, dones, 0.9, atoms))
    for row in range(40):
        expected = np.zeros(22)
        for atom, mass in zip(atoms.tolist(), pmfs[row].tolist(), strict=True):
            position = np.clip(rewards[row] + 0.9 * atom * (1 - dones[row]), -10, 10) + 10.0
            lower = int(position)
            expected[lower] += mass * (1 - (position - lower))
            expected[lower + 1] += mass * (position - lower)
        np.testing.assert_allclose(projected[row], expected[:21], atol=1e-5)


SCANS = [ppo_atari_envpool_xla_jax, ppo_atari_envpool_xla_jax_scan]


@pytest.mark.parametrize("script", SCANS)
def test_advantages_by_scan_are_the_weighted_sum_of_their_definition(script: Any) -> None:
    """Each equals the sum of discounted temporal differences up to the episode's end."""
    rng = np.random.default_rng(2)
    rewards, values = rng.normal(size=(2, 12, 3)).astype(np.float32)
    last_value = rng.normal(size=3).astype(np.float32)
    terminated, truncated = rng.random((2, 12, 3)) < 0.2
    args = script.Args(gamma=0.97, gae_lambda=0.9)
    outcome = script.Outcome(rewards, terminated, truncated, None, None, None, None)
    samples = script.Sample(None, None, None, values, outcome)
    advantages = np.asarray(script.gae(args, samples, last_value))
    following = np.vstack([values[1:], last_value])
    for env in range(3):
        for start in range(12):
            expected, weight = 0.0, 1.0
            for t in range(start, 12):
                bootstrap = 0.0 if terminated[t, env] else 0.97 * following[t, env]
                expected += weight * (rewards[t, env] + bootstrap - values[t, env])
                if terminated[t, env] or truncated[t, env]:
                    break
                weight *= 0.97 * 0.9
            assert advantages[start, env] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("script", SCANS)
def test_advantages_bootstrap_where_an_episode_was_cut_off(script: Any) -> None:
    """A truncated episode counts the value of its true last observation, a terminated one
    nothing; neither counts anything of the next episode."""
    args = script.Args(gamma=0.9, gae_lambda=0.8)
    rewards = np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [4.0, 4.0]], np.float32)
    values = np.array([[0.1, 0.5], [0.2, 0.6], [0.3, 0.7], [0.4, 0.8]], np.float32)
    ends = np.zeros((4, 2), np.bool_)
    terminated, truncated = ends.copy(), ends.copy()
    terminated[1, 0] = truncated[1, 1] = True
    outcome = script.Outcome(rewards, terminated, truncated, None, None, None, None)
    samples = script.Sample(None, None, None, values, outcome)
    last_value = np.array([0.9, 1.0], np.float32)
    advantages = np.asarray(script.gae(args, samples, last_value))

    cut_by_terminal = 2.0 - 0.2
    cut_by_limit = 2.0 + 0.9 * 0.7 - 0.6
    assert advantages[1] == pytest.approx([cut_by_terminal, cut_by_limit])
    first = [
        1 + 0.9 * 0.2 - 0.1 + 0.72 * cut_by_terminal,
        1 + 0.9 * 0.6 - 0.5 + 0.72 * cut_by_limit,
    ]
    assert advantages[0] == pytest.approx(first)


def test_the_convolutional_agent_equals_the_torch_one() -> None:
    """With the same weights both give the same logits and values, convolved either way."""
    torch.manual_seed(0)
    spaces = SimpleNamespace(
        num_envs=1,
        single_observation_space=gym.spaces.Box(0, 255, (4, 84, 84), np.uint8),
        single_action_space=gym.spaces.Discrete(4),
    )
    agent = ppo_atari.Agent(spaces)
    linear = [layer for layer in agent.network if hasattr(layer, "weight")]
    *convs, hidden = [(layer.weight.detach(), layer.bias.detach().numpy()) for layer in linear]
    # Torch flattens channels first, JAX channels last.
    kernel = hidden[0].view(512, 64, 7, 7).permute(2, 3, 1, 0).reshape(-1, 512).numpy()
    params = {
        "trunk": {
            "convs": [{"kernel": w.permute(2, 3, 1, 0).numpy(), "bias": b} for w, b in convs],
            "hidden": {"kernel": kernel, "bias": hidden[1]},
        },
        **{
            name: {"kernel": head.weight.detach().numpy().T, "bias": head.bias.detach().numpy()}
            for name, head in (("actor", agent.actor), ("critic", agent.critic))
        },
    }
    frames = np.random.default_rng(0).integers(0, 256, (5, 4, 84, 84)).astype(np.uint8)
    with torch.no_grad():
        expected = [output.numpy() for output in agent(torch.from_numpy(frames))]
    in_loop = partial(ppo_atari_envpool_xla_jax_scan.forward, convolve=jax_layers.unfolded_convolve)
    for forward in (ppo_atari_envpool_xla_jax.forward, in_loop):
        for output, wanted in zip(forward(params, frames), expected, strict=True):
            np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-5)


def test_acting_with_numpy_equals_jax() -> None:
    """What the agent does is what learning believes it does."""
    layers = [
        jax_layers.dense(jax.random.PRNGKey(inputs), inputs, outputs)
        for inputs, outputs in ((6, 32), (32, 16), (16, 4))
    ]
    rows = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    with_jax = np.asarray(jax.jit(dqn_jax.q_values)(layers, rows))
    with_numpy = dqn_jax.q_values(Tree(layers).numpy(), rows)
    assert isinstance(with_numpy, np.ndarray)
    np.testing.assert_allclose(with_numpy, with_jax, atol=1e-5)


def test_a_tree_goes_through_a_checkpoint_and_a_wrong_one_is_named() -> None:
    """Saved arrays come back under their names; other shapes are refused with the name."""

    def make(key: Any, outputs: int = 2) -> jax_layers.Layers:
        return [jax_layers.dense(key, 3, 5), jax_layers.dense(key, 5, outputs)]

    tree = Tree(make(jax.random.PRNGKey(0)))
    saved = {name: torch.from_numpy(array) for name, array in tree.state_dict().items()}
    other = Tree(make(jax.random.PRNGKey(1)))
    other.load_state_dict(saved)
    same = jax.tree.map(np.array_equal, tree.numpy(), other.numpy())
    assert all(jax.tree.leaves(same))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, tree.numpy(), trained(make, saved))))
    with pytest.raises(RuntimeError, match=r"mismatch for \[1\]"):
        trained(partial(make, outputs=4), saved)


def test_a_batch_handed_to_jax_is_not_the_memory_of_the_next_one() -> None:
    """JAX reads its arguments late; drawing the next batch must not change them."""
    tensor = torch.zeros(4)
    batch = arrays(Batch(tensor, tensor, tensor, tensor, tensor))
    tensor += 1
    assert not any(array.any() for array in batch.values())


@pytest.mark.parametrize(
    ("algorithm", "flags", "words"),
    [
        ("dqn_jax", "--env-id Pendulum-v1", ["discrete", "CartPole-v1"]),
        ("c51_jax", "--v-min 5 --v-max 5", ["--v-min 5 must be below --v-max"]),
        ("td3_continuous_action_jax", "--cuda", ["CUDA", "leave --cuda out"]),
        ("qdagger_dqn_atari_jax_impalacnn", "", ["--teacher-policy", "--train-teacher-steps"]),
        ("qdagger_dqn_atari_jax_impalacnn", "--teacher-policy nowhere", ["nowhere"]),
    ],
)
def test_refused_with_a_sentence(
    algorithm: str, flags: str, words: list[str], tmp_path: Path
) -> None:
    """Exit status 2 before training, no traceback, and the sentence names the way out."""
    output = tmp_path / "output"
    status = run_script(algorithm, [*flags.split(), "--run-dir", str(tmp_path / "run")], output)
    text = output.read_text()
    assert status == 2, text
    assert "Traceback" not in text
    assert [word for word in words if word not in text] == []


def test_a_teacher_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    """QDagger says which policy it was given and how to train a fitting one."""
    train("dqn_jax", tmp_path / "cartpole", "--smoke")
    output = tmp_path / "output"
    flags = ["--teacher-policy", str(tmp_path / "cartpole"), "--run-dir", str(tmp_path / "run")]
    assert run_script("qdagger_dqn_atari_jax_impalacnn", flags, output) == 2
    text = output.read_text()
    assert "one of dqn_jax" in text
    assert "python -m cleanrl_worker.cleanrl.dqn_atari_jax" in text


def test_without_jax_the_command_that_installs_it_is_named() -> None:
    """A machine without JAX gets one sentence instead of a traceback."""
    code = (
        "import runpy, sys; sys.modules['jax'] = None; "
        "runpy.run_module('cleanrl_worker.cleanrl.dqn_jax', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "install_extras --set jax" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("CUDA_VISIBLE_DEVICES", "0", True),
        ("CUDA_VISIBLE_DEVICES", "", False),
        ("CUDA_VISIBLE_DEVICES", "-1", False),
        ("JAX_PLATFORMS", "cpu", False),
        ("JAX_PLATFORMS", "cuda,cpu", True),
    ],
)
def test_a_gpu_that_is_hidden_from_a_run_is_not_used(
    variable: str, value: str, found: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine with a GPU, a run that reserved none trains on the CPU instead of failing."""
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    plugin = SimpleNamespace(name="xla_cuda13")
    monkeypatch.setattr(device, "entry_points", lambda group: [plugin])
    monkeypatch.setattr(device, "_NVIDIA", tmp_path)
    args = dqn_jax.Args()
    device.choose_device(args, {"base", "jax"})
    assert args.cuda is found
