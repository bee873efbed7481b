"""PPO with random network distillation: curiosity, its returns and its part in the loss."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from mutants.families.ppo_pixels import assert_logged, assert_weights
from mutants.learning import Learning
from mutants.noise_envs import NoiseFrames
from mutants.rollouts import Rollout, advantages, load_state, plain_adam, small_trunk
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
    """A trial that knows of the random steps before the first rollout: nobody played them."""

    def to_report(self, turn: Turn) -> list[Ended]:
        """What ended in the rollout."""
        before = self.args.num_envs * (len(turn.steps) - self.args.num_steps)
        played = [ended for ended in turn.ended if ended.step > turn.step + before]
        return [Ended(ended.step - before, ended.returns) for ended in played]


def _turns(subject: Subject) -> tuple[list[Turn], Any]:
    module: ModuleType = subject.module
    module.EnvPoolEnvs = NoiseFrames
    module.Agent, module.RNDModel = _SmallAgent, _SmallRND
    return rehearse(module, kind=_Curious, **_SETTINGS), module.Args(**_SETTINGS)


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
    lr = (1 - turn.step / args.total_timesteps) * args.learning_rate
    optimizer = plain_adam(torch.optim.Adam, both, turn.before["optimizer"], lr, 1e-5)
    torch.set_rng_state(turn.random)
    size = len(flat_obs) // args.num_minibatches
    for order in turn.orders:
        for start in range(0, len(flat_obs), size):
            mb = torch.from_numpy(order[start : start + size])
            chosen = torch.rand(size) < args.update_proportion
            forward_loss = rnd(frames[mb])[chosen].mean()
            logits, new_ext, new_int = agent(flat_obs[mb])
            policy = Categorical(logits=logits)
            ratio = (policy.log_prob(actions[mb]) - old_log_probs[mb]).exp()
            gain = (total[mb] - total[mb].mean()) / (total[mb].std() + 1e-8)
            low, high = 1 - args.clip_coef, 1 + args.clip_coef
            pg_loss = -torch.minimum(gain * ratio, gain * ratio.clip(low, high)).mean()
            change = (new_ext - old_values[mb]).clip(-args.clip_coef, args.clip_coef)
            far = (new_ext - ext_returns[mb]) ** 2
            near = (old_values[mb] + change - ext_returns[mb]) ** 2
            v_loss = torch.maximum(far, near).mean() / 2
            v_loss = v_loss + ((new_int - int_returns[mb]) ** 2).mean() / 2
            loss = pg_loss - args.ent_coef * policy.entropy().mean() + args.vf_coef * v_loss
            optimizer.zero_grad()
            (loss + forward_loss).backward()
            nn.utils.clip_grad_norm_(list(both.parameters()), args.max_grad_norm)
            optimizer.step()
    logged = {
        "charts/episode_curiosity_reward": float(curious.mean()),
        "losses/value_loss": v_loss.item(),
        "losses/policy_loss": pg_loss.item(),
        "losses/fwd_loss": forward_loss.item(),
    }
    return agent.state_dict(), rnd.state_dict(), logged


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain implementation: curiosity from whole
    statistics, its advantages without ends, the others' with both kinds of ends, one loss."""
    turns, args = _turns(subject)
    seen, kinds = _Seen(args), set()
    for turn, following in pairwise(turns):
        agent, rnd, logged = _replay(turn, following.steps[0].obs, args, seen)
        assert_logged(turn, logged)
        assert_weights(turn.after["agent"], agent)
        assert_weights(turn.after["rnd"], rnd)
        kinds |= Rollout.of(turn).kinds
    assert kinds == {"terminated", "truncated"}


def surprise_is_the_error_of_the_prediction(subject: Subject) -> None:
    """The mean squared difference of two random networks; only the predictor learns."""
    torch.manual_seed(0)
    rnd, frames = subject.module.RNDModel(), torch.randn(3, 1, 84, 84)
    difference = rnd.predictor(frames) - rnd.target(frames)
    expected = (difference**2).sum(dim=1) / difference.shape[1]
    torch.testing.assert_close(rnd(frames), expected)
    assert float(expected.detach().min()) > 0
    rnd(frames).sum().backward()
    assert all(parameter.grad is None for parameter in rnd.target.parameters())
    assert all(parameter.grad.any() for parameter in rnd.predictor.parameters())


TURN: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
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
