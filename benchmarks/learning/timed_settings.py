"""What the algorithms with large networks are trained on when there are only minutes.

The budgets are far below the published ones, so a record says what was reached at how many
steps. Schedules (learning rate, exploration) are made for about what fits into the time: a
third of an hour for all of `ON_GPU` together, a quarter for one of `ON_CPU`, half an hour for
Rainbow. `ppo_atari` alone has the published schedule and is continued in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.learning.settings import CLEANRL, Published

_BREAKOUT = "BreakoutNoFrameskip-v4"
_PONG = "PongNoFrameskip-v4"
_POOL_BREAKOUT = "Breakout-v5"


@dataclass(frozen=True)
class TimedSetting:
    """One algorithm's record under a time limit.

    Attributes:
        env_id: what it plays.
        total_timesteps: the length of its schedule.
        cores: how many processor cores it gets.
        flags: settings that are not the script's defaults.
        published: the figure for this environment, with its own budget.
    """

    env_id: str
    total_timesteps: int
    cores: int
    flags: dict[str, object] = field(default_factory=dict)
    published: Published | None = None


def _ppo(mean: float, std: float | None = None) -> Published:
    return Published(mean, std, f"{CLEANRL}/ppo/", steps=10_000_000)


def _q(mean: float, std: float | None, page: str) -> Published:
    return Published(mean, std, f"{CLEANRL}/{page}/", steps=10_000_000)


_GRAPHS: dict[str, object] = {"cudagraphs": True}
_SHORT_Q: dict[str, object] = {
    "buffer_size": 100_000,
    "learning_starts": 10_000,
    "exploration_fraction": 0.2,
}
_SHORT_REPLAY: dict[str, object] = {"buffer_size": 100_000, "learning_starts": 10_000}
_TAUGHT: dict[str, object] = {
    "buffer_size": 50_000,
    "learning_starts": 1000,
    "train_teacher_steps": 200_000,
    "teacher_steps": 30_000,
    "offline_steps": 20_000,
}

ON_GPU: dict[str, TimedSetting] = {
    "ppo_atari": TimedSetting(_BREAKOUT, 10_000_000, 15, _GRAPHS, _ppo(414.66, 28.09)),
    "ppo_atari_envpool": TimedSetting(_POOL_BREAKOUT, 1_500_000, 2, _GRAPHS, _ppo(211.2, 151.8)),
    "ppo_atari_envpool_xla_jax": TimedSetting(_POOL_BREAKOUT, 1_000_000, 2, {}, _ppo(420.9)),
    "ppo_atari_envpool_xla_jax_scan": TimedSetting(_POOL_BREAKOUT, 1_000_000, 2, {}, _ppo(423.9)),
    "ppo_atari_lstm": TimedSetting(_BREAKOUT, 600_000, 1, {}, _ppo(128.92, 31.10)),
    "ppo_atari_multigpu": TimedSetting(
        _BREAKOUT,
        800_000,
        2,
        {"world_size": 2, "device_ids": "0,0", "backend": "gloo"},
        _ppo(414.94, 20.60),
    ),
    "pqn_atari_envpool": TimedSetting(
        _POOL_BREAKOUT, 1_500_000, 2, _GRAPHS, _q(384.9, None, "pqn")
    ),
    "pqn_atari_envpool_lstm": TimedSetting(_POOL_BREAKOUT, 500_000, 1, {}, _q(400.4, None, "pqn")),
    "ppo_rnd_envpool": TimedSetting(_POOL_BREAKOUT, 600_000, 1, {"num_envs": 16}),
    "dqn_atari": TimedSetting(
        _BREAKOUT, 600_000, 1, {**_SHORT_Q, **_GRAPHS}, _q(366.93, 39.89, "dqn")
    ),
    "dqn_atari_jax": TimedSetting(_BREAKOUT, 500_000, 1, _SHORT_Q, _q(377.82, 34.91, "dqn")),
    "c51_atari": TimedSetting(
        _BREAKOUT, 600_000, 1, {**_SHORT_Q, **_GRAPHS}, _q(461.86, 69.65, "c51")
    ),
    "c51_atari_jax": TimedSetting(_BREAKOUT, 500_000, 1, _SHORT_Q, _q(448.56, 17.02, "c51")),
    # Rainbow begins late on Pong. Dopamine's figure is the average from step 750,000 on, with
    # sticky actions. In the 250,000 steps before, its runs get -19.8 to -18.3; in those before
    # that, -20.7 to -20.5, less than random play.
    "rainbow_atari": TimedSetting(
        _PONG,
        1_000_000,
        2,
        {**_SHORT_REPLAY, **_GRAPHS},
        Published(
            -16.87,
            0.42,
            "https://github.com/google/dopamine/blob/master/baselines/atari/data/pong.json "
            "(three runs of Rainbow)",
            steps=1_000_000,
        ),
    ),
    "sac_atari": TimedSetting(
        _BREAKOUT,
        400_000,
        1,
        {**_SHORT_REPLAY, **_GRAPHS},
        Published(343.66, 93.34, f"{CLEANRL}/sac/", steps=5_000_000),
    ),
    "qdagger_dqn_atari_impalacnn": TimedSetting(
        _BREAKOUT, 150_000, 1, _TAUGHT, _q(295.55, 12.30, "qdagger")
    ),
    "qdagger_dqn_atari_jax_impalacnn": TimedSetting(_BREAKOUT, 150_000, 1, _TAUGHT),
}

_ONE_LEVEL: dict[str, object] = {
    "num_levels": 1,
    "num_envs": 16,
    "num_steps": 64,
    "num_minibatches": 4,
}

ON_CPU: dict[str, TimedSetting] = {
    "ppo_procgen": TimedSetting("starpilot", 80_000, 2, _ONE_LEVEL),
    "ppg_procgen": TimedSetting("starpilot", 80_000, 2, _ONE_LEVEL),
    # A game that gives points early: a core manages about 56 steps a second, so the million of Pong
    # would take five hours.
    "rainbow_atari": TimedSetting(
        "RoadRunnerNoFrameskip-v4",
        80_000,
        1,
        {"buffer_size": 80_000, "learning_starts": 2000, "target_network_frequency": 2000},
    ),
    "qdagger_dqn_atari_impalacnn": TimedSetting(
        _BREAKOUT,
        30_000,
        2,
        {
            "buffer_size": 20_000,
            "learning_starts": 500,
            "train_teacher_steps": 60_000,
            "teacher_steps": 10_000,
            "offline_steps": 5000,
        },
    ),
}
