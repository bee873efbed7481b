"""PPO with random network distillation: curiosity, its returns and its part in the loss."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from mutants.families.ppo_pixels import assert_logged, assert_weights
from mutants.harmless import Harmless
from mutants.learning import Learning
from mutants.noise_envs import NoiseFrames
from mutants.reference import assert_orthogonal, load
from mutants.rollouts import (
    Rollout,
    advantages,
    games_made,
    load_state,
    loss_of_ppo,
    plain_adam,
    small_trunk,
)
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Ended, State, Trial, Turn, rehearse

RND = "cleanrl/ppo_rnd_envpool.py"
_SETTINGS: dict[str, Any] = {
    "total_timesteps": 96,
    "num_envs": 2,
    "num_steps": 16,
    "num_minibatches": 2,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "int_gamma": 0.7,
    "gae_lambda": 0.8,
    "clip_coef": 0.02,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
    "int_coef": 1.5,
    "ext_coef": 2.5,
    "update_proportion": 0.5,
    "num_iterations_obs_norm_init": 1,
}


class _SmallAgent(nn.Module):
    """One trunk and three heads, in place of convolutions."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.network = small_trunk(envs)
        self.actor = nn.Linear(16, int(envs.single_action_space.n))
        self.critic_ext, self.critic_int = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.network(obs)
        values = (critic(hidden).flatten() for critic in (self.critic_ext, self.critic_int))
        return self.actor(hidden), *values


class _SmallRND(nn.Module):
    """A fixed and a learning network, in place of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.target, self.predictor = (
            nn.Sequential(nn.Flatten(), nn.Linear(84 * 84, 4)) for _ in range(2)
        )
        self.target.requires_grad_(False)

    def forward(self, frames: Tensor) -> Tensor:
        return (self.target(frames) - self.predictor(frames)).square().mean(dim=1)


class _Curious(Trial):
    """A trial that leaves out the random steps before the first rollout."""

    def to_report(self, turn: Turn) -> list[Ended]:
        """What ended in the rollout."""
        before = self.args.num_envs * (len(turn.steps) - self.args.num_steps)
        played = [ended for ended in turn.ended if ended.step > turn.step + before]
        return [Ended(ended.step - before, ended.returns) for ended in played]


def _fresh(subject: Subject) -> Any:
    """The file with its real networks, whatever other checks have put in their place."""
    return Subject(subject.file, subject.source).module


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    module, settings = _fresh(subject), {**_SETTINGS, **arguments}
    module.EnvPoolEnvs = NoiseFrames
    module.Agent, module.RNDModel = _SmallAgent, _SmallRND
    return rehearse(module, kind=_Curious, **settings), module.Args(**settings)


class _Seen:
    """All frames and all curiosity returns so far, whole: no running statistics."""

    def __init__(self, args: Any) -> None:
        self.args = args
        self.frames: list[np.ndarray] = []
        self.returns: list[np.ndarray] = []
        self.discounted = np.zeros(args.num_envs)

    def normalize(self, obs: Tensor) -> Tensor:
        seen = np.concatenate(self.frames).astype(np.float64)
        newest = (obs[:, -1:].numpy() - seen.mean(axis=0)) / seen.std(axis=0)
        return torch.from_numpy(newest.clip(-5, 5)).to(torch.float32)

    def scale(self, errors: np.ndarray) -> np.ndarray:
        for error in errors:
            self.discounted = self.args.int_gamma * self.discounted + error
            self.returns.append(self.discounted)
        return errors / np.std(np.stack(self.returns))


def _intrinsic(rewards: np.ndarray, values: np.ndarray, args: Any) -> Tensor:
    """Advantages of curiosity: like the others, but no episode ends."""
    steps = len(rewards)
    result = np.zeros_like(rewards)
    for start in range(steps):
        for t in range(start, steps):
            delta = rewards[t] + args.int_gamma * values[t + 1] - values[t]
            result[start] += (args.int_gamma * args.gae_lambda) ** (t - start) * delta
    return torch.from_numpy(result).to(torch.float32)


def _replay(
    turn: Turn, next_obs: np.ndarray, args: Any, seen: _Seen
) -> tuple[State, State, dict[str, float]]:
    """One turn, by the definitions: the agent's and the predictor's weights, and what is logged."""
    agent = load_state(_SmallAgent(NoiseFrames("", 1)), turn.before["agent"])
    rnd = load_state(_SmallRND(), turn.before["rnd"])
    rollout, rows = Rollout.of(turn), args.num_steps
    if turn.step == 0:
        # Before the first rollout, as many steps again only show what frames look like.
        seen.frames.append(rollout.obs[1 : rows + 1, :, -1].flatten(0, 1).numpy())
    rollout = Rollout(*(getattr(rollout, name)[-rows:] for name in rollout.__dataclass_fields__))
    flat_obs = rollout.obs.flatten(0, 1)
    with torch.no_grad():
        errors = rnd(seen.normalize(rollout.following.flatten(0, 1))).view(rows, -1).numpy()
        curious = seen.scale(errors)

        def value(obs: Tensor) -> Tensor:
            return agent(obs.flatten(0, 1))[1].view(obs.shape[:2])

        ext = advantages(rollout, value, args.gamma, args.gae_lambda)
        old_logits, old_values, old_int = agent(flat_obs)
        after = agent(torch.from_numpy(next_obs))[2]
        int_values = torch.cat([old_int.view(rows, -1), after[None]]).numpy()
    inner = _intrinsic(curious, int_values, args)
    ext_returns, int_returns = ext.flatten() + old_values, inner.flatten() + old_int
    total = (args.ext_coef * ext + args.int_coef * inner).flatten()
    seen.frames.append(flat_obs[:, -1].numpy())
    frames = seen.normalize(flat_obs)
    actions = rollout.actions.flatten()
    old_log_probs = Categorical(logits=old_logits).log_prob(actions)
    both = nn.ModuleList([agent, rnd.predictor])
    lr = args.learning_rate
    if args.anneal_lr:
        lr *= 1 - turn.step / args.total_timesteps
    optimizer = plain_adam(torch.optim.Adam, both, turn.before["optimizer"], lr, 1e-5)
    torch.set_rng_state(turn.random)
    size, far_away = len(flat_obs) // args.num_minibatches, []
    for order in turn.orders:
        for start in range(0, len(flat_obs), size):
            mb = torch.from_numpy(order[start : start + size])
            chosen = torch.rand(size) < args.update_proportion
            forward_loss = rnd(frames[mb])[chosen].sum() / max(int(chosen.sum()), 1)
            logits, new_ext, new_int = agent(flat_obs[mb])
            policy = Categorical(logits=logits)
            ratio = (policy.log_prob(actions[mb]) - old_log_probs[mb]).exp()
            entropy = policy.entropy().mean()
            loss, logged = loss_of_ppo(
                args, ratio, total[mb], new_ext, old_values[mb], ext_returns[mb], entropy
            )
            int_loss = ((new_int - int_returns[mb]) ** 2).mean() / 2
            optimizer.zero_grad()
            (loss + args.vf_coef * int_loss + forward_loss).backward()
            nn.utils.clip_grad_norm_(list(both.parameters()), args.max_grad_norm)
            optimizer.step()
            far_away.append(((ratio - 1).abs() > args.clip_coef).float().mean().item())
    logged["losses/value_loss"] += int_loss.item()
    logged |= {
        "charts/episode_curiosity_reward": float(curious.mean()),
        "charts/learning_rate": lr,
        "losses/fwd_loss": forward_loss.item(),
        "losses/clipfrac": float(np.mean(far_away)),
    }
    return agent.state_dict(), rnd.state_dict(), logged


def _same(subject: Subject, **arguments: Any) -> set[str]:
    """Compare every turn but the last with a plain one; the ways in which episodes ended."""
    turns, args = _turns(subject, **arguments)
    seen, kinds = _Seen(args), set()
    for turn, following in pairwise(turns):
        agent, rnd, logged = _replay(turn, following.steps[0].obs, args, seen)
        assert_logged(turn, logged)
        assert_weights(turn.after["agent"], agent)
        assert_weights(turn.after["rnd"], rnd)
        kinds |= Rollout.of(turn).kinds
    return kinds


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain implementation: curiosity from whole
    statistics, its advantages without ends, the others' with both kinds of ends, one loss."""
    assert _same(subject) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper;
    the predictor may learn from a single frame of a minibatch, or from none."""
    options = {"norm_adv": False, "clip_vloss": False, "anneal_lr": False}
    _same(subject, update_proportion=0.06, **options)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, no epoch begins once it is passed."""
    for target, epochs in ((1e-9, 1), (1e9, 2)):
        turns, _ = _turns(subject, target_kl=target, total_timesteps=64)
        assert [len(turn.orders) for turn in turns] == [epochs] * len(turns)


def surprise_is_the_error_of_the_prediction(subject: Subject) -> None:
    """The mean squared difference of two random networks; only the predictor learns."""
    torch.manual_seed(0)
    rnd, frames = _fresh(subject).RNDModel(), torch.randn(3, 1, 84, 84)
    difference = rnd.predictor(frames) - rnd.target(frames)
    expected = (difference**2).sum(dim=1) / difference.shape[1]
    torch.testing.assert_close(rnd(frames), expected)
    assert float(expected.detach().min()) > 0
    rnd(frames).sum().backward()
    assert all(parameter.grad is None for parameter in rnd.target.parameters())
    assert all(parameter.grad.any() for parameter in rnd.predictor.parameters())


def curiosity_is_measured_from_all_that_was_seen(subject: Subject) -> None:
    """Of each stack the newest frame counts, with mean 0, variance 1 and clipped to 5; returns of
    errors are summed over time; and a run that is resumed remembers all of it."""
    args = SimpleNamespace(int_gamma=0.7, num_envs=2)
    first, twin = (_fresh(subject).Curiosity(args, None, torch.device("cpu")) for _ in range(2))
    rng = np.random.default_rng(0)
    obs = rng.integers(20, 24, size=(100, 4, 84, 84), dtype=np.uint8)
    newest = obs[:, -1].astype(np.float64)
    for some in (obs[:30], obs[30:]):
        first.see(some)
    for brightness, wanted in ((0, -5.0), (255, 5.0)):
        frame = first.normalize(np.full((1, 4, 84, 84), brightness, np.uint8))
        np.testing.assert_allclose(frame, np.full((1, 1, 84, 84), wanted))
    reached = first.normalize(obs)[:, 0]
    expected = (newest - newest.mean(axis=0)) / newest.std(axis=0)
    np.testing.assert_allclose(reached, expected, rtol=1e-2, atol=1e-2)
    errors = rng.random((5, 2)).astype(np.float32)
    first.scale(errors)
    weights = 0.7 ** np.arange(5)[::-1]
    np.testing.assert_allclose(first.state_dict()["discounted"], weights @ errors, rtol=1e-5)
    twin.load_state_dict(_saved(first.state_dict()))
    torch.testing.assert_close(twin.normalize(obs), first.normalize(obs))
    np.testing.assert_array_equal(twin.scale(errors), first.scale(errors))


def _saved(state: dict[str, Any]) -> dict[str, Any]:
    """A state as it comes back from a file."""
    return {
        name: _saved(value) if isinstance(value, dict) else torch.as_tensor(value).clone()
        for name, value in state.items()
    }


def _conv_layers(frames: int, bend: type[nn.Module]) -> list[nn.Module]:
    """The convolutions of Mnih et al. (2015)."""
    sizes = ((frames, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))
    return [part for size in sizes for part in (nn.Conv2d(*size), bend())] + [nn.Flatten()]


def _real_networks(subject: Subject) -> tuple[nn.Module, nn.Module]:
    envs = SimpleNamespace(
        single_observation_space=gym.spaces.Box(0, 255, (4, 84, 84), np.uint8),
        single_action_space=gym.spaces.Discrete(5),
    )
    torch.manual_seed(0)
    module = _fresh(subject)
    return module.Agent(envs), module.RNDModel()


def the_networks_are_those_of_the_paper(subject: Subject) -> None:
    """With the same weights the same outputs as plain networks give: three heads on one trunk, with
    one more layer before the values; a fixed network, and a deeper one that is to predict it."""
    agent, rnd = _real_networks(subject)
    with torch.no_grad():
        for parameter in [*agent.parameters(), *rnd.parameters()]:
            parameter.add_(0.03 * torch.randn_like(parameter))
    ends = (nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, 448), nn.ReLU())
    trunk = nn.Sequential(*_conv_layers(4, nn.ReLU), *ends)
    extra = nn.Linear(448, 448)
    actor = nn.Sequential(nn.Linear(448, 448), nn.ReLU(), nn.Linear(448, 5))
    critics = nn.Linear(448, 1), nn.Linear(448, 1)
    load(nn.ModuleList([trunk, extra, actor, *critics]), dict(agent.state_dict()))
    obs = torch.randint(256, (3, 4, 84, 84), dtype=torch.uint8)
    hidden = trunk(obs / 255)
    features = hidden + torch.relu(extra(hidden))
    expected = (actor(hidden), *(critic(features)[:, 0] for critic in critics))
    for reached, wanted in zip(agent(obs), expected, strict=True):
        torch.testing.assert_close(reached, wanted, rtol=1e-3, atol=1e-4)

    deep = (nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    predictor = nn.Sequential(*_conv_layers(1, nn.LeakyReLU), *deep)
    target = nn.Sequential(*_conv_layers(1, nn.LeakyReLU), nn.Linear(3136, 512))
    load(nn.ModuleList([predictor, target]), dict(rnd.state_dict()))
    frames = torch.randn(3, 1, 84, 84)
    surprise = (target(frames) - predictor(frames)).square().sum(dim=1) / 512
    torch.testing.assert_close(rnd(frames), surprise, rtol=1e-3, atol=1e-4)


def the_networks_begin_as_they_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2, near the outputs with far smaller ones, and
    biases are zero."""
    gains = {"extra_layer.0": 0.1, "actor.0": 0.01, "actor.2": 0.01}
    gains |= {"critic_ext": 0.01, "critic_int": 0.01}
    for network in _real_networks(subject):
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                assert_orthogonal(layer, gains.pop(name, 2**0.5))
    assert not gains


def games_are_those_that_were_asked_for(subject: Subject) -> None:
    """As many as --num-envs of the game that was named, where actions stick as in the paper; the
    run first looks whether it can play them."""
    asked = games_made(_fresh(subject), "EnvPoolEnvs", env_id="Pong-v5", num_envs=4)
    wanted = {"env_id": "Pong-v5", "num_envs": 4, "video_dir": None}
    assert asked == {**wanted, "repeat_action_probability": 0.25}


TURN: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
OPTIONS: tuple[Check, ...] = (options_do_what_they_say,)
SURPRISE: tuple[Check, ...] = (surprise_is_the_error_of_the_prediction,)
_EDITS = (
    ("args.vf_coef * v_loss + forward_loss", "args.vf_coef * v_loss", "the predictor never learns"),
    ("< args.update_proportion", "< 1.0", "the predictor learns from every frame"),
    (
        "curiosity_rewards + args.int_gamma * int_values[1:]",
        "curiosity_rewards + args.int_gamma * goes_on * int_values[1:]",
        "curiosity ends with an episode",
    ),
    (
        "int_decay = args.int_gamma * args.gae_lambda",
        "int_decay = args.gamma * args.gae_lambda",
        "curiosity has the discount of the game",
    ),
    (
        "ext_deltas = rewards + args.gamma * goes_on * ext_values[1:]",
        "ext_deltas = rewards + args.gamma * ext_values[1:]",
        "termination is ignored",
    ),
    (
        "rewards[t] += args.gamma * cut_off",
        "rewards[t] += 0 * cut_off",
        "truncation counts as an end",
    ),
    ("+ args.int_coef * int_advantages", "", "curiosity changes nothing"),
    ("args.ext_coef * ext_advantages", "ext_advantages", "--ext-coef is ignored"),
    (
        "        curiosity_rewards = curiosity.scale(curiosity_rewards)\n",
        "",
        "curiosity is not scaled",
    ),
    ("self._discounted * self._gamma + error", "error", "scaled by errors, not by their returns"),
    (
        'curiosity.errors(info.get("final_obs", next_obs))',
        "curiosity.errors(obs[t])",
        "surprise about the frame before, not the new one",
    ),
    (
        "                curiosity.see(next_obs)\n",
        "                pass\n",
        "frames are not normalised at the start",
    ),
    (
        "0.5 * (new_int_values - int_returns).square().mean()",
        "0.0",
        "the value of curiosity never learns",
    ),
    (
        "optimizer.clip_grad_norm_(args.max_grad_norm)\n",
        "pass\n",
        "the gradient is not clipped",
    ),
    ("(1.0 - global_step / (", "(1.0 + global_step / (", "the learning rate rises"),
)
MUTANTS = [
    *(Mutant(RND, old, new, why, TURN) for old, new, why in _EDITS),
    Mutant(
        RND,
        "self.target.requires_grad_(False)",
        "pass",
        "the target learns too, so that nothing is surprising",
        SURPRISE,
    ),
    Mutant(
        RND,
        "(self.target(frames) - self.predictor(frames)).square()",
        "(self.target(frames) - self.predictor(frames)).abs()",
        "the error is not squared",
        SURPRISE,
    ),
]
MUTANTS += [
    Mutant(RND, "if args.anneal_lr:", "if True:", "--no-anneal-lr is ignored", OPTIONS),
    Mutant(RND, "if args.norm_adv:", "if True:", "--no-norm-adv is ignored", OPTIONS),
    Mutant(RND, "if args.clip_vloss:", "if True:", "--no-clip-vloss is ignored", OPTIONS),
    Mutant(
        RND,
        "and approx_kl > args.target_kl:",
        "and False:",
        "--target-kl is ignored",
        (updates_stop_early,),
    ),
    Mutant(
        RND,
        'self._frames.load_state_dict(state["frames"])',
        "pass",
        "a resumed run has forgotten what frames look like",
        (curiosity_is_measured_from_all_that_was_seen,),
    ),
    Mutant(
        RND,
        "features = hidden + self.extra_layer(hidden)",
        "features = self.extra_layer(hidden)",
        "no shortcut around the layer before the values",
        (the_networks_are_those_of_the_paper,),
    ),
    Mutant(
        RND,
        "self.critic_int = layer_init(nn.Linear(448, 1), std=0.01)",
        "self.critic_int = layer_init(nn.Linear(448, 1))",
        "the value of curiosity begins a hundred times too large",
        (the_networks_begin_as_they_should,),
    ),
    Mutant(
        RND,
        "STICKY_ACTIONS = 0.25",
        "STICKY_ACTIONS = 0.0",
        "an easier game than the paper's",
        (games_are_those_that_were_asked_for,),
    ),
]
HARMLESS = [
    Harmless(
        "self._returns.update(returns.reshape(-1))",
        "1",
        "2",
        "NumPy takes any negative number for what is left",
        ("ppo_rnd_envpool",),
    ),
]
LEARNING = [
    Learning(
        "ppo_rnd_envpool",
        "--env-id RoadRunner-v5 --total-timesteps 65536 --num-envs 8 --learning-rate 5e-4 "
        "--num-iterations-obs-norm-init 1",
        "--learning-rate 1e-12 --total-timesteps 1024",
        5,
        # The best action of an untrained policy stands still, or runs by chance.
        deterministic=False,
        slow=True,
    ),
]
