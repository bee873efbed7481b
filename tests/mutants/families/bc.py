"""Behaviour cloning: what its loss, its minibatches and its statistics must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from cleanrl_worker.kit.demonstrations import Demonstrations
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.sampling import Random
from mutants.learning import Learning
from mutants.noise_envs import CONTINUOUS, DISCRETE, PIXELS
from mutants.reference import assert_orthogonal, load
from mutants.subject import Mutant, Subject
from mutants.trial import Turn, rehearse

BC = "cleanrl/bc.py"
_ROWS = 40
_SETTINGS: dict[str, Any] = {
    "total_timesteps": 24,
    "num_envs": 2,
    "batch_size": 8,
    "holdout": 0.25,
    "smoothing": 0.2,
    "learning_rate": 3e-2,
    "log_every": 1,
    # Reached within the few turns there are.
    "min_std": 0.95,
}


def _data(continuous: bool) -> Demonstrations:
    rng = np.random.default_rng(5)
    seen = rng.normal(2.0, 3.0, (_ROWS, 3)).astype(np.float32)
    done: Any = rng.integers(3, size=_ROWS)
    if continuous:
        done = rng.normal(0.0, 0.1, (_ROWS, 2)).astype(np.float32)
    return Demonstrations("noise", seen, done, "")


def _turns(
    subject: Subject, *, continuous: bool, data: Demonstrations | None = None, **arguments: Any
) -> tuple[list[Turn], Any]:
    data = _data(continuous) if data is None else data
    subject.module.__dict__["read_demonstrations"] = lambda *_: data
    settings = {**_SETTINGS, "env_id": CONTINUOUS if continuous else DISCRETE, **arguments}
    settings["dataset"] = "noise"
    options = settings.pop("env_options", None)
    turns = rehearse(subject.module, env_options=options, **settings)
    return turns, subject.module.Args(**settings)


class _Plain(nn.Module):
    """The policy with nothing but torch's own parts."""

    def __init__(self, continuous: bool) -> None:
        super().__init__()
        self.continuous = continuous
        layers = nn.Sequential(
            nn.Linear(3, 64),
            nn.Tanh(),
            nn.Linear(64, 64),
            nn.Tanh(),
            nn.Linear(64, 2 + (not continuous)),
        )
        if continuous:
            self.actor_mean = layers
            self.actor_logstd = nn.Parameter(torch.zeros(2))
        else:
            self.actor = layers

    def distribution(self, obs: torch.Tensor) -> torch.distributions.Distribution:
        if self.continuous:
            normal = torch.distributions.Normal(self.actor_mean(obs), self.actor_logstd.exp())
            return torch.distributions.Independent(normal, 1)
        return torch.distributions.Categorical(logits=self.actor(obs))


def _same(subject: Subject, *, continuous: bool) -> None:
    turns, args = _turns(subject, continuous=continuous)
    data = _data(continuous)
    seen = data.observations
    if continuous:
        wanted = {"mean": seen.mean(0), "var": seen.var(0)}
        for turn in turns:
            for name, value in wanted.items():
                found = np.asarray(turn.after["obs_rms"][name])
                np.testing.assert_allclose(found, value, rtol=1e-3, err_msg=name)
        seen = (seen - seen.mean(0)) / seen.std(0)
    order = np.random.default_rng(args.seed).permutation(_ROWS)
    learned = round(_ROWS * (1 - args.holdout))
    obs = torch.from_numpy(seen[order]).float()
    actions = torch.from_numpy(data.actions[order])
    plain = _Plain(continuous)
    plain.load_state_dict(turns[0].before["agent"])
    optimizer = torch.optim.Adam(plain.parameters(), args.learning_rate, eps=1e-5)
    rng = Random(args.seed)
    for turn in turns:
        rng.load_state_dict(turn.before["rng"])
        rows = torch.from_numpy(rng.integers(learned, size=args.batch_size))
        chosen = plain.distribution(obs[rows])
        loss = -chosen.log_prob(actions[rows]).mean()
        if not continuous:
            targets = torch.full((len(rows), 3), args.smoothing / 3)
            targets[range(len(rows)), actions[rows]] += 1 - args.smoothing
            loss = nn.functional.cross_entropy(plain.actor(obs[rows]), targets)
        entropy = chosen.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            if continuous:
                plain.actor_logstd.clamp_(min=float(np.log(args.min_std)))
            holdout = -plain.distribution(obs[learned:]).log_prob(actions[learned:]).mean()
        expected = {"bc_loss": loss, "entropy": entropy, "holdout_loss": holdout}
        for name, value in expected.items():
            np.testing.assert_allclose(
                turn.logged[f"losses/{name}"], value.item(), rtol=2e-3, atol=1e-5, err_msg=name
            )
        for name, value in plain.state_dict().items():
            reached = torch.as_tensor(turn.after["agent"][name])
            torch.testing.assert_close(reached, value, rtol=2e-3, atol=2e-5, msg=name)


def a_turn_makes_the_expert_likelier(subject: Subject) -> None:
    """Weights and logged losses after each turn are those of maximum likelihood with torch's own
    distributions and optimiser, on steps that were not kept apart, for both kinds of actions."""
    _same(subject, continuous=False)
    _same(subject, continuous=True)


def the_best_action_is_watched(subject: Subject) -> None:
    """What is played, and so the curve, is the policy's best action and no sample."""
    turns, _ = _turns(subject, continuous=False)
    for turn in turns:
        plain = _Plain(continuous=False)
        plain.load_state_dict(turn.before["agent"])
        (step,) = turn.steps
        best = plain.actor(torch.from_numpy(step.obs)).argmax(-1).numpy()
        np.testing.assert_array_equal(step.actions, best)


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2 inside and 0.01 for the policy, biases are zero, and
    the standard deviation is 1, as those of PPO, which can begin with it."""
    for env_id in (DISCRETE, CONTINUOUS):
        envs = Envs(env_id, 1)
        torch.manual_seed(0)
        agent = subject.module.make_agent(envs)
        envs.close()
        if env_id == CONTINUOUS:
            assert not agent.actor_logstd.any()
        network = agent.actor_mean if env_id == CONTINUOUS else agent.actor
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, 0.01), strict=True):
            assert_orthogonal(layer, gain)


def losses_are_logged_when_asked_for(subject: Subject) -> None:
    """With --log-every 3 losses are logged in every third turn, from the first on. Where nothing is
    kept apart there is no loss of it; where almost everything is, one step is learned from."""
    turns, _ = _turns(subject, continuous=False, log_every=3, holdout=0.0)
    logged = [{name for name in turn.logged if "losses" in name} for turn in turns]
    losses = {"losses/bc_loss", "losses/entropy"}
    assert logged == [losses if number % 3 == 0 else set() for number in range(len(turns))]

    whole = _data(continuous=False)
    two = Demonstrations("noise", whole.observations[:2], whole.actions[:2], "")
    turns, args = _turns(subject, continuous=False, data=two, holdout=0.9)
    _, kept = np.random.default_rng(args.seed).permutation(2)
    obs, actions = torch.from_numpy(two.observations[[kept]]), torch.tensor(two.actions[[kept]])
    for turn in turns:
        plain = _Plain(continuous=False)
        plain.load_state_dict(turn.after["agent"])
        expected = -plain.distribution(obs).log_prob(actions).mean()
        np.testing.assert_allclose(
            turn.logged["losses/holdout_loss"], expected.item(), rtol=2e-3, atol=1e-5
        )


def grids_are_learned_from_too(subject: Subject) -> None:
    """On grids, such as those of MiniGrid, the logged losses are those of a plain network with
    convolutions."""
    height, width, channels = shape = (4, 5, 3)
    rng = np.random.default_rng(5)
    seen = rng.integers(10, size=(_ROWS, *shape), dtype=np.uint8)
    done = rng.integers(3, size=_ROWS)
    turns, args = _turns(
        subject,
        continuous=False,
        data=Demonstrations("noise", seen, done, ""),
        env_id=PIXELS,
        env_options={"shape": shape},
        total_timesteps=4,
    )
    order = np.random.default_rng(args.seed).permutation(_ROWS)[round(_ROWS * (1 - args.holdout)) :]
    obs = torch.from_numpy(seen[order]).permute(0, 3, 1, 2).float()
    actions = torch.from_numpy(done[order])
    for turn in turns:
        layers: list[nn.Module] = []
        for inputs, outputs in ((channels, 32), (32, 64), (64, 64)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        layers += [nn.Flatten(), nn.Linear(64 * height * width, 128), nn.ReLU()]
        plain = nn.Sequential(*layers, nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
        state = turn.after["agent"]
        load(plain, {name: part for name, part in state.items() if "critic" not in name})
        with torch.no_grad():
            expected = nn.functional.cross_entropy(plain(obs), actions)
        np.testing.assert_allclose(
            turn.logged["losses/holdout_loss"], expected.item(), rtol=2e-3, atol=1e-5
        )


_CHECKS = (a_turn_makes_the_expert_likelier,)
_EDITS = [
    ("bc_loss = -log_probs.mean()", "bc_loss = log_probs.mean()", "learns what was not done"),
    ("(1 - smoothing) * chosen", "chosen", "doubt is added, not shared"),
    ("integers(learned, size", "integers(len(order), size", "learns from what is kept apart"),
    ("d_actions[rows])", "d_actions[: len(rows)])", "states get the actions of others"),
    ("clamp_(min=", "clamp_(max=", "the standard deviation has no floor"),
    ("- logstd - 0.5", "+ logstd - 0.5", "the density has the wrong scale"),
    ("envs.frozen = True", "envs.frozen = False", "statistics move away from the data's"),
    ("d_obs[learned:], d_actions[learned:]", "d_obs[:learned], d_actions[:learned]",
     "the measured steps are the learned ones"),
    ("all_probs.gather(1,", "logits.gather(1,", "logits taken for probabilities"),
]  # fmt: skip
MUTANTS = [
    *(Mutant(BC, old, new, why, _CHECKS) for old, new, why in _EDITS),
    Mutant(
        BC,
        "deterministic=True))",
        "deterministic=False))",
        "the curve is of samples, not of the best actions",
        (the_best_action_is_watched,),
    ),
    *(
        Mutant(BC, old, new, why, (the_network_begins_as_it_should,))
        for old, new, why in (
            (
                "layer_init(nn.Linear(64, outputs), std=0.01)",
                "nn.Linear(64, outputs)",
                "the policy begins with a preference",
            ),
            ("std: float = math.sqrt(2)", "std: float = 1.0", "signals fade from layer to layer"),
        )
    ),
    *(
        Mutant(BC, old, new, why, (losses_are_logged_when_asked_for,))
        for old, new, why in (
            ("% args.log_every == 0:", "% 1 == 0:", "--log-every is ignored"),
            (
                "if learned < len(order):",
                "if learned:",
                "a loss of no steps at all is logged, which is not a number",
            ),
            (
                "max(1, round(len(order) * (1 - args.holdout)))",
                "round(len(order) * (1 - args.holdout))",
                "there may be nothing to learn from",
            ),
        )
    ),
    Mutant(
        BC,
        "agent(obs)[0] if isinstance",
        "agent(obs)[0].relu() if isinstance",
        "on grids another policy is learned than is played",
        (grids_are_learned_from_too,),
    ),
]
LEARNING = [
    Learning(
        "bc",
        "--dataset example --total-timesteps 3000",
        "--learning-rate 1e-12",
        factor=5.0,
        # The best action of a network that has learned nothing may happen to balance the pole.
        deterministic=False,
        slow=True,
    ),
]
