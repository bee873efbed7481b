"""The arithmetic, held against independent computations."""

from __future__ import annotations

import gc
import weakref

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from cleanrl_worker.cleanrl import ppo_continuous_action, rainbow_atari, sac_continuous_action
from cleanrl_worker.kit import fused
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.fused import Sequential
from cleanrl_worker.kit.inference import numpy_forward
from cleanrl_worker.kit.normalize import NormalizeObservation, NormalizeReward, RunningMeanStd
from cleanrl_worker.kit.optim import Adam, RAdam
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.sampling import Random


def test_rainbows_projection_matches_an_atom_by_atom_computation() -> None:
    """Every atom's mass lands on its two neighbours; mass is kept, the mean too where it fits."""
    torch.manual_seed(0)
    atoms = torch.linspace(-10, 10, 21)
    pmfs = torch.randn(40, 21).softmax(1)
    rewards = torch.cat([torch.randn(36) * 6, torch.tensor([0.0, 1.0, 30.0, -30.0])])
    dones = (torch.rand(40) < 0.3).float()
    projected = rainbow_atari.project(pmfs, rewards, dones, torch.full((40,), 0.9), atoms)
    for row in range(40):
        expected = np.zeros(21)
        for atom, mass in zip(atoms.tolist(), pmfs[row].tolist(), strict=True):
            moved = min(max(rewards[row].item() + 0.9 * atom * (1 - dones[row].item()), -10), 10)
            position = moved + 10
            lower = min(int(np.floor(position + 1e-6)), 20)
            share = position - lower
            expected[lower] += mass * (1 - share)
            if share > 1e-6:
                expected[min(lower + 1, 20)] += mass * share
        np.testing.assert_allclose(projected[row].numpy(), expected, atol=1e-5)
    torch.testing.assert_close(projected.sum(1), torch.ones(40))


def test_a_truncated_episode_is_bootstrapped_from_its_true_last_state() -> None:
    """CartPole cut off by time reports truncation, and the final observation is the state the
    episode really reached, not the first one of the next episode."""
    envs = Envs("CartPole-v1", 2, max_episode_steps=5)
    twin = gym.make("CartPole-v1", max_episode_steps=5)
    obs = envs.reset(seed=3)
    twin_obs, _ = twin.reset(seed=3)
    for step in range(5):
        action = step % 2
        obs, _, terminated, truncated, info = envs.step(np.array([action, action]))
        twin_obs, _, twin_terminated, twin_truncated, _ = twin.step(action)
    assert truncated.all()
    assert not terminated.any()
    assert twin_truncated
    assert not twin_terminated
    np.testing.assert_array_equal(info["final_obs"][0], twin_obs)
    assert not np.array_equal(obs[0], twin_obs), "the new episode has begun"
    assert info["episodes"] == [(5.0, 5), (5.0, 5)]
    envs.close()
    twin.close()


def test_replay_keeps_the_true_next_state_and_only_termination_ends_it() -> None:
    """A cut-off transition in memory is not marked as the end of the world."""
    envs = Envs("CartPole-v1", 1, max_episode_steps=3)
    memory = ReplayBuffer(10, envs, torch.device("cpu"))
    obs = envs.reset(seed=1)
    for _ in range(3):
        actions = np.array([1])
        next_obs, rewards, terminated, _, info = envs.step(actions)
        memory.add(obs, info.get("final_obs", next_obs), actions, rewards, terminated)
        obs = next_obs
    batch = memory.sample(200, Random(0))
    assert batch.dones.sum() == 0
    assert not any(np.array_equal(row, obs[0]) for row in batch.next_obs.numpy())
    envs.close()


def test_replay_forgets_the_oldest_first() -> None:
    """A full memory holds exactly the newest transitions, also with several environments."""
    envs = Envs("CartPole-v1", 3)
    memory = ReplayBuffer(7, envs, torch.device("cpu"))
    for number in range(5):
        rows = np.full((3, 4), number, np.float32)
        marks = 3 * number + np.arange(3, dtype=np.float32)
        memory.add(rows, rows, np.zeros(3, np.int64), marks, np.zeros(3, bool))
    seen = set(memory.sample(2000, Random(0)).rewards.tolist())
    assert seen == set(range(8, 15))
    envs.close()


def test_observation_normalisation_agrees_with_gymnasium() -> None:
    """For one environment the statistics are those of Gymnasium's own wrapper."""
    ours = NormalizeReward(NormalizeObservation(Envs("Pendulum-v1", 1)), gamma=0.99)
    theirs = gym.wrappers.NormalizeReward(
        gym.wrappers.NormalizeObservation(gym.make("Pendulum-v1")), gamma=0.99
    )
    obs = ours.reset(seed=5)
    other, _ = theirs.reset(seed=5)
    rng = np.random.default_rng(0)
    for _ in range(150):
        np.testing.assert_allclose(obs[0], other, atol=1e-4)
        action = rng.uniform(-2, 2, 1).astype(np.float32)
        obs, rewards, *_ = ours.step(action[None])
        other, reward, *_ = theirs.step(action)
        assert rewards[0] == pytest.approx(np.clip(reward, -10, 10), rel=1e-4)
    theirs.close()


def test_running_statistics_equal_those_of_all_rows() -> None:
    """Batches of any size give the mean and variance of everything together."""
    rng = np.random.default_rng(1)
    rows = rng.normal(3, 2, size=(500, 4))
    statistics = RunningMeanStd((4,))
    for part in np.split(rows, [1, 2, 60, 61, 300]):
        statistics.update(part)
    np.testing.assert_allclose(statistics.mean, rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(statistics.var, rows.var(0), rtol=1e-3)


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize(("ours", "theirs"), [(Adam, "Adam"), (RAdam, "RAdam")])
def test_flat_optimisers_take_torchs_steps(ours: type, theirs: str, clip: float | None) -> None:
    """One pass over the flat vector moves the weights where torch's optimiser does."""
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    other = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    other.load_state_dict(one.state_dict())
    flat = ours(one.parameters(), 3e-3, eps=1e-5)
    plain = getattr(torch.optim, theirs)(other.parameters(), 3e-3, eps=1e-5)
    for _ in range(12):
        inputs = torch.randn(16, 5)
        for network, optimizer in ((one, flat), (other, plain)):
            optimizer.zero_grad()
            network(inputs).square().mean().backward()
            if clip is not None and network is one:
                flat.clip_grad_norm_(clip)
            elif clip is not None:
                nn.utils.clip_grad_norm_(other.parameters(), clip)
            optimizer.step()
    for mine, reference in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 4, 500])
def test_numpy_acts_as_torch_does_and_follows_training(rows: int) -> None:
    """The quick forward pass gives the network's output, before and after an update."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(6, 32),
        nn.LayerNorm(32),
        nn.ReLU(),
        nn.Linear(32, 16),
        nn.Tanh(),
        nn.Linear(16, 3),
    )
    forward = numpy_forward(network)
    optimizer = Adam(network.parameters(), 1e-2)
    inputs = torch.randn(rows, 6)
    for _ in range(3):
        expected = network(inputs).detach().numpy()
        np.testing.assert_allclose(forward(inputs.numpy()), expected, rtol=1e-4, atol=1e-5)
        optimizer.zero_grad()
        network(inputs).square().mean().backward()
        optimizer.step()


def _twin(network: nn.Sequential) -> Sequential:
    """The same layers, fused."""
    return Sequential(*network)


def _critic(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 1)
    )


@pytest.mark.parametrize("bend", [nn.Tanh, nn.ReLU])
def test_a_fused_network_learns_as_torchs_own(bend: type[nn.Module]) -> None:
    """Outputs and gradients are those of torch, also over several losses."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(5, 16), bend(), nn.Linear(16, 8), bend(), nn.Linear(8, 3))
    network = _twin(plain)
    optimizer = Adam(network.parameters(), 1e-2)
    for _ in range(3):
        rows = torch.randn(40, 5)
        expected = plain(rows)
        (expected.square().mean() + expected.cos().sum()).backward()
        wanted = [parameter.grad.clone() for parameter in optimizer.parameters]
        optimizer.zero_grad()
        output = network(rows)
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
        output.square().mean().backward()
        network(rows).cos().sum().backward()
        for parameter, gradient in zip(optimizer.parameters, wanted, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("in_torch", [False, True])
def test_fused_critics_lead_an_actor_as_torch_would(
    in_torch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An actor ending in tanh climbs the smaller of two values and gets torch's gradients, while
    the critics, left out of `backward(inputs=...)`, stay untouched; also where the layers are left
    to torch, as on a GPU. With one critic all rows are judged, and that is right too."""
    if in_torch:
        monkeypatch.setattr(fused, "_in_torch", lambda rows: True)
    torch.manual_seed(0)
    plain = [
        _critic(7),
        _critic(7),
        nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh()),
    ]
    qf1, qf2, actor = map(_twin, plain)
    q_optimizer = Adam([*qf1.parameters(), *qf2.parameters()], 1e-2)
    actor_optimizer = Adam(actor.parameters(), 1e-2)
    obs, target = torch.randn(60, 5), torch.randn(60)

    def climb(q1: nn.Module, q2: nn.Module, policy: nn.Module) -> torch.Tensor:
        rows = torch.cat([obs, policy(obs)], dim=1)
        return -torch.min(q1(rows), q2(rows)).mean() - q1(rows).mean()

    loss = climb(*plain)
    wanted = torch.autograd.grad(loss, actor_optimizer.parameters)
    fused_loss = climb(qf1, qf2, actor)
    fused_loss.backward(inputs=actor_optimizer.parameters)
    torch.testing.assert_close(fused_loss, loss)
    assert not q_optimizer.gradient.any()
    for parameter, gradient in zip(actor_optimizer.parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)

    # Asked for everything, the rows and the parameters get their gradients together
    rows = torch.randn(60, 7, requires_grad=True)
    error = (plain[0](rows).squeeze(1) - target).square().mean()
    wanted = torch.autograd.grad(error, [rows, *plain[0].parameters()])
    (qf1(rows).squeeze(1) - target).square().mean().backward()
    for tensor, gradient in zip([rows, *qf1.parameters()], wanted, strict=True):
        torch.testing.assert_close(tensor.grad, gradient, rtol=1e-4, atol=1e-6)


def test_fused_networks_keep_no_memory_of_past_updates() -> None:
    """What an update computed is freed with it, without waiting for the collector."""
    network = _twin(_critic(4))
    gc.disable()
    try:
        outputs = []
        for _ in range(3):
            output = network(torch.randn(8, 4))
            output.sum().backward()
            outputs.append(weakref.ref(output.grad_fn))
            del output
        assert [reference() for reference in outputs] == [None, None, None]
    finally:
        gc.enable()


def test_sampled_actions_follow_the_logits() -> None:
    """Frequencies of sampled actions are the softmax of the logits."""
    logits = np.tile(np.array([0.0, 1.0, -1.0], np.float32), (60000, 1))
    counts = np.bincount(Random(0).categorical(logits), minlength=3) / 60000
    weights = np.exp([0.0, 1.0, -1.0])
    np.testing.assert_allclose(counts, weights / weights.sum(), atol=0.01)


def test_gaussian_log_probability_is_torchs() -> None:
    """PPO's density is that of torch's Normal distribution."""
    actions, mean, logstd = torch.randn(9, 3), torch.randn(9, 3), torch.randn(3)
    expected = torch.distributions.Normal(mean, logstd.exp()).log_prob(actions).sum(1)
    ours = ppo_continuous_action.gaussian_log_prob(actions, mean, logstd)
    torch.testing.assert_close(ours, expected)


def test_squashed_gaussian_log_probability_is_a_density() -> None:
    """SAC's log-probability equals that of a transformed Normal at the sampled action."""
    envs = Envs("Pendulum-v1", 1)
    torch.manual_seed(0)
    actor = sac_continuous_action.Actor(envs)
    obs = torch.randn(64, 3)
    actions, log_prob = actor(obs, torch.randn(64, 1))
    mean, log_std = actor.network(obs).chunk(2, dim=1)
    log_std = -5 + 3.5 * (log_std.tanh() + 1)
    distributions = torch.distributions
    squashed = distributions.TransformedDistribution(
        distributions.Normal(mean, log_std.exp()),
        [
            distributions.TanhTransform(),
            distributions.AffineTransform(actor.centre, actor.scale),
        ],
    )
    inside = (actions.abs() < 1.99).squeeze(1)
    expected = squashed.log_prob(actions).sum(1)
    torch.testing.assert_close(log_prob[inside], expected[inside], rtol=1e-2, atol=1e-2)
    envs.close()
