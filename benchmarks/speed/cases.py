"""What is compared: our script and the peer's algorithm with the same hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# The peer of a case that is measured against its environments alone, stepped at random.
ENVIRONMENT = "the environment alone"


@dataclass(frozen=True)
class Case:
    """One comparison on one environment.

    Attributes:
        algorithm: our script.
        env_id: the environment for both.
        steps: environment steps of one run.
        target: how many times the peer's speed is aimed at.
        peer: the class in stable-baselines3, or `ENVIRONMENT`.
        flags: our flags that differ from the defaults.
        peer_options: the peer's arguments for the same hyperparameters.
        num_envs: environments side by side.
        warm: the step at which both clocks start; random actions, first calls and compilation
            lie before it.
        compiled_target: the aim with `--compile`, for scripts that have the flag.
    """

    algorithm: str
    env_id: str
    steps: int
    target: float
    peer: str
    flags: dict[str, Any] = field(default_factory=dict)
    peer_options: dict[str, Any] = field(default_factory=dict)
    num_envs: int = 1
    warm: int = 0
    compiled_target: float | None = None


CARTPOLE_PPO = {
    "learning_rate": 2.5e-4,
    "anneal_lr": True,
    "n_steps": 128,
    "batch_size": 128,
    "n_epochs": 4,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "clip_range_vf": 0.2,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
CARTPOLE_DQN = {
    "learning_rate": 2.5e-4,
    "buffer_size": 10_000,
    "learning_starts": 1000,
    "batch_size": 128,
    "train_freq": 10,
    "target_update_interval": 500,
    "exploration_fraction": 0.5,
    "policy_kwargs": {"net_arch": [120, 84]},
}
_Q_FLAGS = {"learning_starts": 1000}
OFF_POLICY = {
    "learning_rate": 3e-4,
    "buffer_size": 100_000,
    "learning_starts": 200,
    "batch_size": 256,
    "train_freq": 1,
    "gradient_steps": 1,
    "policy_kwargs": {"net_arch": [256, 256]},
}
_OFF_FLAGS = {"learning_starts": 200, "buffer_size": 100_000}
_NOISY = {**OFF_POLICY, "action_noise": 0.1}
CONTINUOUS_PPO = {
    **CARTPOLE_PPO,
    "learning_rate": 3e-4,
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "ent_coef": 0.0,
    "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
}

ATARI = {**CARTPOLE_PPO, "batch_size": 256, "clip_range": 0.1, "clip_range_vf": 0.1}

CASES = [
    Case("ppo", "CartPole-v1", 40_000, 4.0, "PPO", {}, CARTPOLE_PPO, 4, 5120, 8.0),
    Case("dqn", "CartPole-v1", 20_000, 2.5, "DQN", _Q_FLAGS, CARTPOLE_DQN, 1, 2000, 4.5),
    Case("c51", "CartPole-v1", 15_000, 1.5, "DQN", _Q_FLAGS, CARTPOLE_DQN, 1, 2000, 3.0),
    Case("pqn", "CartPole-v1", 40_000, 4.0, "PPO", {}, CARTPOLE_PPO, 4, 5120),
    Case("ppo", "MiniGrid-Empty-8x8-v0", 20_480, 0.8, ENVIRONMENT, {}, {}, 4, 4096, 0.8),
    Case("ppo_atari", "BreakoutNoFrameskip-v4", 3072, 2.5, "PPO", {}, ATARI, 8, 1024),
    Case(
        "ppo_continuous_action",
        "HalfCheetah-v5",
        8192,
        3.0,
        "PPO",
        {},
        CONTINUOUS_PPO,
        1,
        2048,
        5.0,
    ),
    *(
        Case(f"{name}_continuous_action", env_id, 700, 1.8, peer, flags, options, 1, 300, 2.5)
        for env_id in ("Pendulum-v1", "HalfCheetah-v5")
        for name, peer, flags, options in (
            ("sac", "SAC", {**_OFF_FLAGS, "q_lr": 3e-4}, OFF_POLICY),
            ("td3", "TD3", _OFF_FLAGS, _NOISY),
            # The peer's DDPG updates the actor with every update of the critic.
            ("ddpg", "DDPG", {**_OFF_FLAGS, "policy_frequency": 1}, _NOISY),
        )
    ),
]
