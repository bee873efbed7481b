"""What each algorithm is trained on for its learning record, and what others reached.

Settings that are not listed are the script's defaults. `published` is the figure that the
record is held against; `None` where nobody published one for that environment and budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

CLEANRL = "https://docs.cleanrl.dev/rl-algorithms"
ZOO = "https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md"


@dataclass(frozen=True)
class Published:
    """A figure from somebody else."""

    mean: float
    std: float | None
    """its spread over seeds; `None` where the page gives none"""
    source: str
    of: str = "training"
    """`training`: average return at the end of training; `evaluation`: greedy policy"""
    steps: int | None = None
    """its budget, where that is another one than the record's"""


@dataclass(frozen=True)
class Setting:
    """One algorithm's learning record."""

    env_id: str
    total_timesteps: int
    flags: dict[str, object] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1, 2, 3)
    published: Published | None = None
    random_return: float | None = None
    """what a random policy gets, for scale"""


PENDULUM_OFF_POLICY: dict[str, object] = {
    "learning_rate": 1e-3,
    "learning_starts": 1000,
    "gamma": 0.98,
}
# PPO solves Pendulum only with a shorter horizon than its default.
SHORT_HORIZON: dict[str, object] = {"gamma": 0.9, "learning_rate": 1e-3}

SETTINGS: dict[str, Setting] = {
    "ppo": Setting(
        "CartPole-v1",
        500_000,
        published=Published(490.04, 6.12, f"{CLEANRL}/ppo/"),
        random_return=22,
    ),
    "dqn": Setting(
        "CartPole-v1",
        500_000,
        seeds=tuple(range(1, 9)),
        published=Published(488.69, 16.11, f"{CLEANRL}/dqn/"),
        random_return=22,
    ),
    "c51": Setting(
        "CartPole-v1",
        500_000,
        published=Published(481.20, 20.53, f"{CLEANRL}/c51/"),
        random_return=22,
    ),
    "pqn": Setting(
        "CartPole-v1",
        500_000,
        seeds=tuple(range(1, 17)),
        published=Published(495.13, 6.89, f"{CLEANRL}/pqn/"),
        random_return=22,
    ),
    "ddpg_continuous_action": Setting(
        "Pendulum-v1",
        20_000,
        PENDULUM_OFF_POLICY,
        published=Published(-152.10, 94.28, ZOO, of="evaluation"),
        random_return=-1230,
    ),
    "td3_continuous_action": Setting(
        "Pendulum-v1",
        20_000,
        PENDULUM_OFF_POLICY,
        published=Published(-151.86, 90.23, ZOO, of="evaluation"),
        random_return=-1230,
    ),
    "sac_continuous_action": Setting(
        "Pendulum-v1",
        20_000,
        {"learning_starts": 1000},
        published=Published(-157.00, 88.71, ZOO, of="evaluation"),
        random_return=-1230,
    ),
    "dqn_jax": Setting(
        "CartPole-v1",
        500_000,
        published=Published(498.38, 2.29, f"{CLEANRL}/dqn/"),
        random_return=22,
    ),
    "c51_jax": Setting(
        "CartPole-v1",
        500_000,
        published=Published(491.07, 9.70, f"{CLEANRL}/c51/"),
        random_return=22,
    ),
    "ddpg_continuous_action_jax": Setting(
        "Pendulum-v1",
        20_000,
        PENDULUM_OFF_POLICY,
        published=Published(-152.10, 94.28, f"{ZOO} (in torch)", of="evaluation"),
        random_return=-1230,
    ),
    "td3_continuous_action_jax": Setting(
        "Pendulum-v1",
        20_000,
        PENDULUM_OFF_POLICY,
        published=Published(-151.86, 90.23, f"{ZOO} (in torch)", of="evaluation"),
        random_return=-1230,
    ),
    "ppo_continuous_action": Setting(
        "HalfCheetah-v5",
        1_000_000,
        published=Published(1442.64, 46.03, f"{CLEANRL}/ppo/ (HalfCheetah-v4)"),
        random_return=-280,
    ),
    "rpo_continuous_action": Setting("InvertedPendulum-v5", 300_000, random_return=6),
    "ppo_continuous_ondevice": Setting("Pendulum-v1", 200_000, SHORT_HORIZON, random_return=-1230),
    # The right end is worth 1, the wrong one -1: without a memory, nothing on average.
    "ppo_rnn_ondevice": Setting(
        "mosaic/Recall-v0", 40_960, {"learning_rate": 1e-3}, random_return=0
    ),
    "ppo_trxl": Setting("mosaic/Recall-v0", 40_960, {"learning_rate": 1e-3}, random_return=0),
    # The score of one player, who gets about 50 for never missing.
    "ppo_pettingzoo_ma_atari": Setting(
        "mosaic/Doubles-v0", 81_920, {"num_envs": 8, "learning_rate": 1e-3}, random_return=1.4
    ),
    # From the recorded episodes that come with it; it watches its policy while it clones.
    "bc": Setting("CartPole-v1", 20_000, {"dataset": "example"}, random_return=22),
}


def _as_twin(name: str) -> Setting:
    """The setting of a file in torch, for the one that does the same on the device."""
    setting = SETTINGS[name]
    assert setting.published is not None, "its figure is what the twin is held against"
    source = f"{setting.published.source} (in torch)"
    return replace(setting, published=replace(setting.published, source=source))


SETTINGS |= {
    "ppo_ondevice": _as_twin("ppo"),
    "dqn_ondevice": _as_twin("dqn"),
    "pqn_ondevice": _as_twin("pqn"),
    "td3_ondevice": _as_twin("td3_continuous_action"),
    "sac_ondevice": _as_twin("sac_continuous_action"),
}
