"""PQN: what its returns, its loss and its exploration must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from mutants.learning import Learning
from mutants.noise_envs import DISCRETE, NoisePool
from mutants.reference import assert_orthogonal, assert_same_gradient, load
from mutants.rollouts import (
    Rollout,
    SmallQ,
    games_made,
    load_state,
    plain_adam,
    q_lambda_returns,
    small_trunk,
)
from mutants.subject import Mutant, Subject
from mutants.trial import State, Turn, rehearse

PQN = "cleanrl/pqn.py"
ENVPOOL = "cleanrl/pqn_atari_envpool.py"
LSTM = "cleanrl/pqn_atari_envpool_lstm.py"
_SETTINGS: dict[str, Any] = {
    "env_id": DISCRETE,
    "total_timesteps": 192,
    "num_envs": 3,
    "num_steps": 16,
    "num_minibatches": 3,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "q_lambda": 0.6,
    "max_grad_norm": 0.3,
}
_HIDDEN = 8


class _PlainQ(nn.Module):
    network: nn.Sequential

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(3, 120),
            nn.LayerNorm(120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.LayerNorm(84),
            nn.ReLU(),
            nn.Linear(84, 3),
        )


class _SmallRecurrentQ(nn.Module):
    """From small pictures and a memory to the value of each action, in place of convolutions."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.trunk = small_trunk(envs)
        self.cell = nn.LSTMCell(16, _HIDDEN)
        self.head = nn.Linear(_HIDDEN, int(envs.single_action_space.n))

    def forward(self, obs: Tensor, begins: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the first step come first, then those of the second."""
        envs, outputs = state.shape[1], []
        for now, begin in zip(
            self.trunk(obs).view(-1, envs, 16), begins.view(-1, envs, 1), strict=True
        ):
            state = torch.stack(self.cell(now, tuple(part * (1 - begin) for part in state)))
            outputs.append(self.head(state[0]))
        return torch.cat(outputs), state


@dataclass
class _Past:
    """What a recurrent network remembers between two rollouts, and where it forgot in the last."""

    state: Tensor
    begins: Tensor
    first: Tensor = field(default_factory=lambda: torch.empty(0))
    forgot: Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def nothing(cls, envs: int) -> _Past:
        """Before the first step."""
        return cls(torch.zeros(2, envs, _HIDDEN), torch.ones(envs))


def _plain(subject: Subject, state: State) -> nn.Module:
    plain: nn.Module = _PlainQ()
    if subject.file != PQN:
        plain = (SmallQ if subject.file == ENVPOOL else _SmallRecurrentQ)(NoisePool("", 1))
    return load_state(plain, state)


@torch.no_grad()
def _judged(q: nn.Module, rollout: Rollout, past: _Past) -> tuple[Tensor, Tensor]:
    """The values of all actions in each state of a rollout, and in the one that followed it."""
    if isinstance(q, _PlainQ | SmallQ):
        both = (rollout.obs, rollout.following)
        now, then = (q.network(obs.flatten(0, 1)).view(*obs.shape[:2], -1) for obs in both)
        return now, then
    judged, judged_then, forgot, past.first = [], [], [], past.state
    ended = rollout.terminated | rollout.truncated
    for obs, following, ends in zip(rollout.obs, rollout.following, ended, strict=True):
        values, past.state = q(obs, past.begins, past.state)
        judged.append(values)
        judged_then.append(q(following, torch.zeros(len(ends)), past.state)[0])
        forgot.append(past.begins)
        past.begins = ends.float()
    past.forgot = torch.stack(forgot)
    return torch.stack(judged), torch.stack(judged_then)


def _minibatches(
    q: nn.Module, turn: Turn, rollout: Rollout, returns: Tensor, past: _Past, parts: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The values of the actions taken and their returns: of single steps in a random order, or of
    the whole rollouts of some environments where there is a memory."""
    for order in turn.orders:
        for rows in np.split(order, parts):
            mb = torch.from_numpy(rows)
            if isinstance(q, _SmallRecurrentQ):
                obs, begins = rollout.obs[:, mb].flatten(0, 1), past.forgot[:, mb].flatten()
                values, _ = q(obs, begins, past.first[:, mb])
                actions, wanted = rollout.actions[:, mb].flatten(), returns[:, mb].flatten()
            elif isinstance(q, _PlainQ | SmallQ):
                values = q.network(rollout.obs.flatten(0, 1)[mb])
                actions, wanted = rollout.actions.flatten()[mb], returns.flatten()[mb]
            yield values[torch.arange(len(actions)), actions], wanted


def _turns(subject: Subject, **arguments: Any) -> tuple[list[Turn], Any]:
    settings = {**_SETTINGS, **arguments}
    # A module of its own: the others want the real network.
    module: Any = Subject(subject.file, subject.source).module
    if subject.file != PQN:
        module.EnvPoolEnvs = NoisePool
        module.QNetwork = SmallQ if subject.file == ENVPOOL else _SmallRecurrentQ
        module.HIDDEN = _HIDDEN
    return rehearse(module, **settings), module.Args(**settings)


def _same(subject: Subject, **arguments: Any) -> set[str]:
    """Compare every turn with a plain one; the ways in which episodes ended."""
    turns, args = _turns(subject, **arguments)
    kinds, past = set(), _Past.nothing(args.num_envs)
    for turn in turns:
        q = _plain(subject, turn.before["q_network"])
        rollout = Rollout.of(turn)
        kinds |= rollout.kinds
        best = _judged(q, rollout, past)[1].amax(-1)

        def following(_: Tensor, best: Tensor = best) -> Tensor:
            return best

        returns = q_lambda_returns(rollout, following, args.gamma, args.q_lambda)
        lr = args.learning_rate
        if args.anneal_lr:
            lr *= 1 - turn.step / args.total_timesteps
        optimizer = plain_adam(torch.optim.RAdam, q, turn.before["optimizer"], lr, 1e-8)
        assert len(turn.orders) == args.update_epochs
        for taken, wanted in _minibatches(q, turn, rollout, returns, past, args.num_minibatches):
            loss = ((taken - wanted) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), args.max_grad_norm)
            optimizer.step()
        np.testing.assert_allclose(turn.logged["charts/learning_rate"], lr)
        np.testing.assert_allclose(turn.logged["losses/td_loss"], loss.item(), rtol=2e-3)
        np.testing.assert_allclose(turn.logged["losses/q_values"], taken.mean().item(), atol=1e-3)
        for name, tensor in q.state_dict().items():
            reached = torch.as_tensor(turn.after["q_network"][name])
            torch.testing.assert_close(reached, tensor, rtol=2e-3, atol=2e-5, msg=name)
        # At the start a step is so small that weights alone would not tell a wrong gradient.
        moments = [optimizer.state[parameter]["exp_avg"].flatten() for parameter in q.parameters()]
        reached = torch.as_tensor(turn.after["optimizer"]["mean"])
        assert_same_gradient(reached, torch.cat(moments))
    return kinds


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights, momentum and losses after each turn are those of a plain implementation: every
    Q(lambda) return summed by its definition, torch's own RAdam and clipping. Where there is a
    memory, it follows time and forgets where an episode ended. Episodes end both ways."""
    assert _same(subject) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without annealing and clipping it is still that of the paper."""
    _same(subject, anneal_lr=False, max_grad_norm=100.0, total_timesteps=96)


def exploration_falls_from_random_to_greedy(subject: Subject) -> None:
    """Actions are random at first; later the greedy one is taken, except with probability end-e."""
    turns, _ = _turns(
        subject,
        total_timesteps=1800,
        num_steps=100,
        exploration_fraction=0.2,
        end_e=0.1,
        learning_rate=1e-12,
        update_epochs=1,
    )
    q, past = _plain(subject, turns[0].before["q_network"]), _Past.nothing(3)
    greedy = []
    for turn in turns:
        rollout = Rollout.of(turn)
        best = _judged(q, rollout, past)[0].argmax(-1)
        greedy.append((best == rollout.actions).float().mean().item())
    assert greedy[0] < 0.75
    assert 0.88 < np.mean(greedy[2:]) < 0.98


def _plain_network(subject: Subject) -> nn.Module:
    """The paper's network, with layer normalisation before each ReLU."""
    if subject.file == PQN:
        return _PlainQ().network
    trunk = [
        *(nn.Conv2d(4 if subject.file == ENVPOOL else 1, 32, 8, 4), nn.LayerNorm([32, 20, 20])),
        *(nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.LayerNorm([64, 9, 9])),
        *(nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.LayerNorm([64, 7, 7])),
        *(nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.LayerNorm(512), nn.ReLU()),
    ]
    if subject.file == ENVPOOL:
        return nn.Sequential(*trunk, nn.Linear(512, 5))
    return nn.ModuleList([nn.Sequential(*trunk), nn.LSTM(512, 128), nn.Linear(128, 5)])


def _real_network(subject: Subject) -> nn.Module:
    shape = {PQN: (3,), ENVPOOL: (4, 84, 84), LSTM: (1, 84, 84)}[subject.file]
    envs = SimpleNamespace(
        single_observation_space=gym.spaces.Box(0, 255, shape),
        single_action_space=gym.spaces.Discrete(3 if subject.file == PQN else 5),
    )
    torch.manual_seed(0)
    network: nn.Module = Subject(subject.file, subject.source).module.QNetwork(envs)
    return network


def the_network_is_that_of_the_paper(subject: Subject) -> None:
    """With the same weights the same values as a plain network gives, from bytes; where there is a
    memory also over several steps, in the middle of which an episode begins."""
    network, plain = _real_network(subject), _plain_network(subject)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    load(plain, dict(network.state_dict()))
    if subject.file == PQN:
        obs = torch.randn(4, 3)
        torch.testing.assert_close(network(obs), plain(obs))
        return
    frames = 4 if subject.file == ENVPOOL else 1
    obs = torch.randint(256, (6, frames, 84, 84), dtype=torch.uint8)
    if subject.file == ENVPOOL:
        torch.testing.assert_close(network(obs), plain(obs / 255), rtol=1e-3, atol=1e-4)
        return
    trunk, lstm, head = plain.children()
    steps, envs = 3, 2
    begins, first = torch.zeros(steps, envs), torch.randn(2, envs, 128)
    begins[1, 1] = 1
    state, expected = first.unsqueeze(1), []
    for now, begin in zip(trunk(obs / 255).view(steps, envs, 512), begins, strict=True):
        state = torch.where(begin.bool()[:, None], 0.0, state)
        _, parts = lstm(now[None], (state[0], state[1]))
        state = torch.stack(parts)
        expected.append(head(state[0, 0]))
    values, last = network(obs, begins.flatten(), first)
    torch.testing.assert_close(values, torch.cat(expected), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(last, state.squeeze(1), rtol=1e-3, atol=1e-4)


def the_network_begins_as_it_should(subject: Subject) -> None:
    """Weights are orthogonal with gain sqrt 2, in a memory with gain 1, and biases are zero."""
    network = _real_network(subject)
    layers = [item for item in network.modules() if isinstance(item, nn.Conv2d | nn.Linear)]
    assert layers
    for layer in layers:
        assert_orthogonal(layer, 2**0.5)
    for memory in (item for item in network.modules() if isinstance(item, nn.LSTM)):
        for part in ("ih", "hh"):
            weight, bias = (getattr(memory, f"{kind}_{part}_l0") for kind in ("weight", "bias"))
            assert_orthogonal(SimpleNamespace(weight=weight, bias=bias), 1.0)


def games_are_those_that_were_asked_for(subject: Subject) -> None:
    """As many as --num-envs of the game that was named, with one frame at a time where a memory
    takes the place of a stack; the run first looks whether it can play them."""
    module = Subject(subject.file, subject.source).module
    asked = games_made(module, "EnvPoolEnvs", env_id="Pong-v5", num_envs=4)
    one_frame = {"stack_num": 1} if subject.file == LSTM else {}
    assert asked == {"env_id": "Pong-v5", "num_envs": 4, "video_dir": None, **one_frame}


TURN = (a_turn_is_that_of_the_paper,)
OPTIONS = (options_do_what_they_say,)
EXPLORES = (exploration_falls_from_random_to_greedy,)
NETWORK = (the_network_is_that_of_the_paper,)
BEGINS = (the_network_begins_as_it_should,)
GAMES = (games_are_those_that_were_asked_for,)

_LOOK_AHEAD = "args.q_lambda * following + (1 - args.q_lambda) * values[t + 1]"
_EDITS = (
    ("args.gamma * goes_on[t] * following", "args.gamma * following", "ends ignored", TURN),
    (
        "rewards[t] += args.gamma * cut_off",
        "rewards[t] += 0 * cut_off",
        "truncation counts as an end",
        TURN,
    ),
    (_LOOK_AHEAD, "values[t + 1]", "lambda is ignored: one-step returns", TURN),
    (
        _LOOK_AHEAD,
        "args.q_lambda * following + (1 - args.q_lambda) * values[t]",
        "the value of the state itself, not of the next one",
        TURN,
    ),
    ("values[t] = q.max(axis=1)", "values[t] = q.mean(axis=1)", "no maximum", TURN),
    (
        "optimizer.clip_grad_norm_(args.max_grad_norm)\n",
        "pass\n",
        "the gradient is not clipped",
        TURN,
    ),
    ("optimizer.zero_grad()\n", "pass\n", "each gradient is added to all before it", TURN),
    ("(1.0 - global_step / (", "(1.0 + global_step / (", "the rate rises", TURN),
    ("if args.anneal_lr:", "if True:", "--no-anneal-lr is ignored", OPTIONS),
    (".gather(1, actions)", ".gather(1, 0 * actions)", "the value of another action learns", TURN),
    ("< epsilon", "> epsilon", "exploration rises, not falls", EXPLORES),
    (
        "nn.init.orthogonal_(layer.weight, std)",
        "nn.init.orthogonal_(layer.weight)",
        "weights begin smaller than they should",
        BEGINS,
    ),
)
_ATARI_EDITS = (
    ("nn.LayerNorm([64, 9, 9])", "nn.Identity()", "a layer is not normalised", NETWORK),
    ("    run.check_spaces(envs)\n", "", "a game it cannot play fails somewhere later", GAMES),
)
_LSTM_EDITS = (
    ("first_state = q_values.state", "first_state = 0 * q_values.state", "the past is lost", TURN),
    ("            q_values.reset(ends[t])\n", "", "acting remembers past an end", TURN),
    (
        "update(*minibatch, first_state[:, some])",
        "update(*minibatch, first_state[:, : len(some)])",
        "rollouts continue the memory of other environments",
        TURN,
    ),
    (
        "nn.init.orthogonal_(parameter, 1.0)",
        "pass",
        "the memory begins with other weights",
        BEGINS,
    ),
    (
        "video_dir=run.video_dir, stack_num=1)",
        "video_dir=run.video_dir)",
        "four frames where the memory should do",
        GAMES,
    ),
)

MUTANTS = [
    *(Mutant(file, *edit) for file in (PQN, ENVPOOL, LSTM) for edit in _EDITS),
    *(Mutant(file, *edit) for file in (ENVPOOL, LSTM) for edit in _ATARI_EDITS),
    *(Mutant(LSTM, *edit) for edit in _LSTM_EDITS),
    Mutant(PQN, "nn.LayerNorm(120)", "nn.Identity()", "no normalisation of layers", TURN),
]

LEARNING = [
    Learning(
        "pqn",
        "--total-timesteps 60000 --learning-rate 1e-3 --exploration-fraction 0.3 --seed 2",
        "--learning-rate 1e-12",
        3,
    ),
    *(
        Learning(
            name,
            f"--env-id RoadRunner-v5 --total-timesteps {steps} --num-steps 32 "
            "--learning-rate 5e-4 --exploration-fraction 0.3 --seed 2",
            "--learning-rate 1e-12 --total-timesteps 1024",
            3,
            # This seed's untrained policy stands still, others run by chance. Random play gets 10.
            least=500,
            slow=True,
        )
        for name, steps in (("pqn_atari_envpool", 98304), ("pqn_atari_envpool_lstm", 65536))
    ),
]
