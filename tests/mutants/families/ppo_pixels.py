"""PPO on pixels: the same algorithm as on flat observations, and the networks that see."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from mutants.families import ppo
from mutants.harmless import Harmless
from mutants.learning import CATCH, Learning
from mutants.memory import Remembered, SmallMemory, replay_with_memory
from mutants.noise_envs import NoisePool
from mutants.reference import assert_orthogonal, impala_trunk, load, nature_cnn
from mutants.rollouts import (
    AsPlain,
    Rollout,
    SmallAgent,
    games_made,
    replay,
)
from mutants.subject import Check, Mutant, Subject
from mutants.trial import GroupTrial, Trial, Turn, rehearse

ATARI = "cleanrl/ppo_atari.py"
ENVPOOL = "cleanrl/ppo_atari_envpool.py"
MULTIGPU = "cleanrl/ppo_atari_multigpu.py"
PROCGEN = "cleanrl/ppo_procgen.py"
PETTINGZOO = "cleanrl/ppo_pettingzoo_ma_atari.py"
LSTM = "cleanrl/ppo_atari_lstm.py"

SETTINGS: dict[str, Any] = {
    "total_timesteps": 96,
    "num_envs": 2,
    "num_steps": 24,
    "num_minibatches": 2,
    "update_epochs": 2,
    "learning_rate": 3e-3,
    "anneal_lr": True,
    "gamma": 0.9,
    "gae_lambda": 0.8,
    # Small enough that ratios and values are clipped, and gradients too.
    "clip_coef": 0.02,
    "max_grad_norm": 0.3,
    "ent_coef": 0.05,
    "vf_coef": 0.7,
}
# What a file calls its games.
_GAMES = ("AtariEnvs", "EnvPoolEnvs", "MultiAgentAtari")


def made_small(module: ModuleType, games: type[NoisePool] = NoisePool) -> ModuleType:
    """The file with random pictures for games and a small network: the rest is in question."""
    for name in _GAMES:
        if hasattr(module, name):
            setattr(module, name, games)
    module.Agent = SmallAgent
    return module


def fresh(subject: Subject) -> ModuleType:
    """The file with its own network, whatever other checks have put in its place."""
    return Subject(subject.file, subject.source).module


def _turns(
    subject: Subject,
    kind: type[Trial] = Trial,
    games: type[NoisePool] = NoisePool,
    **arguments: Any,
) -> tuple[list[Turn], Any]:
    settings = {**SETTINGS, **arguments}
    if subject.file == MULTIGPU:
        settings |= {"local_num_envs": settings.pop("num_envs"), "world_size": 1}
        kind = GroupTrial
    module = made_small(fresh(subject), games)
    if subject.file == LSTM:
        module.__dict__.update(Agent=SmallMemory, HIDDEN=SmallMemory.hidden)
    return rehearse(module, kind=kind, **settings), module.Args(**settings)


def _same(subject: Subject, **arguments: Any) -> list[Turn]:
    """Compare every turn with a plain one."""
    turns, args = _turns(subject, **arguments)
    memory = Remembered(args.num_envs) if subject.file == LSTM else None
    for turn in turns:
        share = 1 - turn.step / args.total_timesteps if args.anneal_lr else 1.0
        lr = share * args.learning_rate
        if memory is None:
            plain = AsPlain(SmallAgent(NoisePool("", 1)))
            logged, network = replay(turn, args, plain, lr).logged, plain.network
        else:
            network = SmallMemory(NoisePool("", 1))
            logged = replay_with_memory(turn, args, network, lr, memory)
        assert_logged(turn, logged)
        assert_weights(turn.after["agent"], network.state_dict())
    return turns


def assert_logged(turn: Turn, wanted: dict[str, float]) -> None:
    """What a turn logged is what it should have."""
    for name, number in wanted.items():
        np.testing.assert_allclose(turn.logged[name], number, rtol=2e-3, atol=1e-5, err_msg=name)


def assert_weights(reached: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A network's numbers are what they should be."""
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            torch.as_tensor(reached[name]), tensor, rtol=2e-3, atol=2e-5, msg=name
        )


def a_turn_is_that_of_the_paper(subject: Subject) -> None:
    """Weights and losses after each turn are those of a plain implementation, around a small
    network; episodes end both ways."""
    turns = _same(subject)
    assert set.union(*(Rollout.of(turn).kinds for turn in turns)) == {"terminated", "truncated"}


def options_do_what_they_say(subject: Subject) -> None:
    """Without normalised advantages, clipped values and annealing it is still that of the paper."""
    _same(subject, norm_adv=False, clip_vloss=False, anneal_lr=False, max_grad_norm=100.0)


def updates_stop_early(subject: Subject) -> None:
    """With a target for the change of the policy, no epoch begins once it is passed."""
    for target, epochs in ((1e-9, 1), (1e9, 3)):
        turns, _ = _turns(subject, target_kl=target, update_epochs=3)
        assert [len(turn.orders) for turn in turns] == [epochs] * len(turns)


def small_rollouts_are_explained_too(subject: Subject) -> None:
    """The explained variance is right for rollouts of two steps, whose returns hardly vary, and not
    a number for those of one, whose returns do not: then there is nothing to explain."""
    settings: dict[str, Any] = {"num_envs": 1, "num_minibatches": 1, "norm_adv": False}
    _same(subject, **settings, num_steps=2, gamma=0.1, total_timesteps=20)
    turns = _same(subject, **settings, num_steps=1, total_timesteps=3)
    assert all(np.isnan(turn.logged["losses/explained_variance"]) for turn in turns)


def spaces(channels: int, size: int, actions: int) -> Any:
    """What a network is made for: pictures of this size."""
    known = {
        "num_envs": 3,
        "single_observation_space": gym.spaces.Box(0, 255, (channels, size, size), np.uint8),
        "single_action_space": gym.spaces.Discrete(actions),
    }
    return type("Spaces", (), known)


def pictures(rows: int, channels: int, size: int) -> Tensor:
    """Random pictures, the same ones each time."""
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(256, size=(rows, channels, size, size), dtype=np.uint8))


def mnih(channels: int) -> nn.Sequential:
    """The trunk of Mnih et al. (2015), from frames between 0 and 1 to 512 features."""
    _, *others, _ = nature_cnn(1)
    return nn.Sequential(nn.Conv2d(channels, 32, 8, 4), *others)


def the_network_is_that_of_mnih(subject: Subject) -> None:
    """Action logits and values are those of the network of Mnih et al. (2015) in plain torch, as
    many frames or players as the pictures show; it begins with orthogonal weights of gain sqrt 2,
    0.01 for the policy and 1 for the value, and without biases."""
    # Frames, and beside them whose turn it is.
    channels = 6 if subject.file == PETTINGZOO else 4
    agent = fresh(subject).Agent(spaces(channels, 84, 5))
    trunk, actor, critic = mnih(channels), nn.Linear(512, 5), nn.Linear(512, 1)
    load(nn.ModuleList([trunk, actor, critic]), agent.state_dict())
    obs = pictures(3, channels, 84)
    with torch.no_grad():
        logits, values = agent(obs)
        hidden = trunk(obs / 255)
        torch.testing.assert_close(logits, actor(hidden), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(values, critic(hidden).flatten(), rtol=1e-3, atol=1e-5)
    assert_gains(trunk, actor, critic)


def assert_gains(trunk: nn.Sequential, actor: nn.Module, critic: nn.Module) -> None:
    """All layers begin orthogonal: with gain sqrt 2, 0.01 for the policy, 1 for the value."""
    for layer in trunk:
        if hasattr(layer, "weight"):
            assert_orthogonal(layer, 2**0.5)
    assert_orthogonal(actor, 0.01)
    assert_orthogonal(critic, 1.0)


def the_trunk_is_that_of_impala(subject: Subject) -> None:
    """Action logits and values are those of the residual network of Espeholt et al. (2018) in plain
    torch; its trunk begins with torch's weights, its heads with orthogonal ones of gain 0.01 for
    the policy and 1 for the value, without biases."""
    agent = fresh(subject).Agent(spaces(3, 64, 15))
    trunk = impala_trunk(3, 64)
    actor, critic = nn.Linear(256, 15), nn.Linear(256, 1)
    load(nn.ModuleList([trunk, actor, critic]), agent.state_dict())
    obs = pictures(3, 3, 64)
    with torch.no_grad():
        logits, values = agent(obs)
        hidden = trunk(obs / 255)
        torch.testing.assert_close(logits, actor(hidden), rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(values, critic(hidden).flatten(), rtol=1e-3, atol=1e-5)
    for weight in (weight.detach() for weight in trunk.parameters() if weight.dim() > 1):
        largest = weight[0].numel() ** -0.5
        assert 0.95 * largest < float(weight.abs().max()) < 1.0001 * largest
    assert_orthogonal(actor, 0.01)
    assert_orthogonal(critic, 1.0)


def the_games_are_those_asked_for(subject: Subject) -> None:
    """A file makes as many games as it was asked for, with the options that they have, and lets the
    run refuse those that it cannot play."""
    module = fresh(subject)
    (batch,) = (name for name in _GAMES if hasattr(module, name))
    count: dict[str, Any] = {"num_envs": 4}
    if subject.file == MULTIGPU:
        count = {"local_num_envs": 4, "world_size": 1}
    options: dict[str, Any] = {}
    if subject.file == PROCGEN:
        options = {"distribution_mode": "hard", "num_levels": 3, "start_level": 5}
    asked = games_made(module, batch, env_id="a game", **count, **options)
    # A memory needs no stack of frames.
    options |= {"stack": 1} if subject.file == LSTM else {}
    assert asked == {"env_id": "a game", "num_envs": 4, "video_dir": None, **options}


def each_player_has_a_curve(subject: Subject) -> None:
    """What each player of a game reached is a curve of its own, at the step where it ended."""
    curve, curves = "charts/episodic_return-player0", []

    class Players(NoisePool):
        def _finish(self, ended: list[int]) -> Any:
            info = super()._finish(ended)
            return {**info, "players": {curve: info["episodes"][0][0]}}

    class Watched(Trial):
        def log(self, step: int, values: dict[str, Any]) -> None:
            super().log(step, values)
            if curve in values:
                curves.append((step, values[curve]))

    turns, _ = _turns(subject, kind=Watched, games=Players)
    ended = [ended for turn in turns for ended in turn.ended]
    assert curves == [(one.step, one.returns[0]) for one in ended]
    assert curves


def the_pools_averages_are_curves(subject: Subject) -> None:
    """What the pool says of its newest episodes is logged with the losses."""

    class Averaging(NoisePool):
        averages = {"charts/avg_episodic_return": 2.5}  # noqa: RUF012  (as in `NoisePool`)

    turns, _ = _turns(subject, games=Averaging)
    assert [turn.logged["charts/avg_episodic_return"] for turn in turns] == [2.5] * len(turns)


PIXELS: tuple[Check, ...] = (a_turn_is_that_of_the_paper,)
SMALL: tuple[Check, ...] = (small_rollouts_are_explained_too,)
MNIH: tuple[Check, ...] = (the_network_is_that_of_mnih,)
IMPALA: tuple[Check, ...] = (the_trunk_is_that_of_impala,)
GAMES: tuple[Check, ...] = (the_games_are_those_asked_for,)

_SAME_CHECK: dict[Check, Check] = {
    ppo.a_turn_is_that_of_the_paper: a_turn_is_that_of_the_paper,
    ppo.options_do_what_they_say: options_do_what_they_say,
    ppo.updates_stop_early: updates_stop_early,
}


def shared_edits(*left_out: str) -> list[SimpleNamespace]:
    """The edits of PPO's own lines, with the checks that do for pictures what PPO's do."""
    return [
        SimpleNamespace(
            old=edit.old, new=edit.new, why=edit.why, checks=(_SAME_CHECK[edit.checks[0]],)
        )
        for edit in ppo.SHARED
        if edit.checks[0] in _SAME_CHECK and edit.why not in left_out
    ]


_ALL = (ATARI, ENVPOOL, PROCGEN, PETTINGZOO, LSTM, MULTIGPU)
MUTANTS = [
    *(
        Mutant(file, edit.old, edit.new, edit.why, edit.checks)
        for file in (ATARI, ENVPOOL, PROCGEN, PETTINGZOO, LSTM)
        for edit in shared_edits()
    ),
    *(
        Mutant(MULTIGPU, edit.old, edit.new, edit.why, edit.checks)
        for edit in shared_edits("the learning rate rises")
    ),
    *(Mutant(file, *edit, SMALL) for file in _ALL for edit in ppo.UNEXPLAINED),
    *(
        Mutant(file, old, new, why, MNIH)
        for file in (ATARI, ENVPOOL, PETTINGZOO, MULTIGPU)
        for old, new, why in (
            (
                "layer_init(nn.Conv2d(64, 64, 3, stride=1))",
                "nn.Conv2d(64, 64, 3, stride=1)",
                "a layer begins with torch's weights",
            ),
            (
                "            ScaledPixels(),\n",
                "",
                "pixels are bytes, not numbers between 0 and 1",
            ),
            ("std: float = math.sqrt(2)", "std: float = 1.0", "signals fade from layer to layer"),
            (
                "int(envs.single_action_space.n)), std=0.01)",
                "int(envs.single_action_space.n)), std=1.0)",
                "the policy begins with a preference",
            ),
        )
    ),
    *(
        Mutant(PROCGEN, old, new, why, IMPALA)
        for old, new, why in (
            ("return maps + self", "return self", "nothing is residual"),
            ("self.conv0(maps.relu()).relu()", "self.conv0(maps).relu()", "a ReLU is missing"),
            (
                "nn.MaxPool2d(3, stride=2, padding=1)",
                "nn.AvgPool2d(3, stride=2, padding=1)",
                "pools by the mean",
            ),
            (
                "        ResidualBlock(outputs),\n        ResidualBlock(outputs),\n",
                "        ResidualBlock(outputs),\n",
                "half of the residual blocks are missing",
            ),
        )
    ),
    *(
        Mutant(file, old, "pass\n", "a game that cannot be played breaks in the middle", GAMES)
        for file in _ALL
        for old in (f"run.check_spaces({'group.share.' * (file == MULTIGPU)}envs)\n",)
    ),
    Mutant(LSTM, "run.video_dir, stack=1)", "run.video_dir)", "it sees four frames", GAMES),
    Mutant(
        PROCGEN,
        "        num_levels=args.num_levels,\n",
        "",
        "--num-levels is ignored",
        GAMES,
    ),
    Mutant(
        PETTINGZOO,
        'run.log(global_step, info["players"])',
        "pass",
        "the curves do not show who wins",
        (each_player_has_a_curve,),
    ),
    Mutant(
        ENVPOOL,
        "                **envs.averages,\n",
        "",
        "the averages that CleanRL shows are missing",
        (the_pools_averages_are_curves,),
    ),
]

HARMLESS = [
    Harmless(
        "def layer_init(",
        "2",
        "4",
        "both layers that are made with it, the heads, name their gain",
        files=("ppo_procgen",),
    ),
]

# One level of Procgen, which is learned by heart, in rollouts that fit it.
ONE_LEVEL = (
    "--env-id starpilot --num-levels 1 --total-timesteps 16384 --num-envs 16 --num-steps 64 "
    "--num-minibatches 4"
)
_UNTRAINED = "--learning-rate 1e-12 --total-timesteps 1024"
_CATCHING = f"{CATCH} --total-timesteps 40960 --learning-rate 1e-3"
# Our own game is not in EnvPool. Of those that are, this one is learned soonest: run left.
_RUNNING = "--env-id RoadRunner-v5 --total-timesteps 65536 --learning-rate 1e-3"
LEARNING = [
    Learning("ppo_atari", _CATCHING, _UNTRAINED, 10, slow=True),
    Learning("ppo_atari_lstm", _CATCHING, _UNTRAINED, 10, slow=True),
    Learning("ppo_atari_multigpu", f"{_CATCHING} --local-num-envs 4", _UNTRAINED, 10, slow=True),
    # Samples of its policy: the best action of an untrained one stands still, or runs by chance.
    Learning("ppo_atari_envpool", _RUNNING, _UNTRAINED, 5, deterministic=False, slow=True),
    Learning("ppo_atari_envpool_xla_jax", _RUNNING, _UNTRAINED, 5, deterministic=False, slow=True),
    # Its first seed meets so few rewards at the start that it learns to stand still.
    Learning(
        "ppo_atari_envpool_xla_jax_scan",
        f"{_RUNNING} --seed 2",
        _UNTRAINED,
        5,
        deterministic=False,
        slow=True,
    ),
    # Each player's own score: in a game where one wins what the other loses, the mean says nothing.
    Learning(
        "ppo_pettingzoo_ma_atari",
        "--env-id mosaic/Doubles-v0 --total-timesteps 40960 --num-envs 8 --learning-rate 1e-3",
        _UNTRAINED,
        5,
        slow=True,
    ),
    Learning("ppo_procgen", ONE_LEVEL, _UNTRAINED, 3, episodes=20, deterministic=False, slow=True),
]
