"""Returns and advantages, computed over whole rollouts."""

from __future__ import annotations

import numpy as np


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    last_value: np.ndarray,
    ends: np.ndarray,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """Generalised advantage estimation (Schulman et al., 2016).

    A truncated episode is an end too: add ``gamma * V(final observation)`` to its last
    reward first, so that the cut does not look like a failure.

    Args:
        rewards: ``(steps, envs)``.
        values: the value of each observation, ``(steps, envs)``.
        last_value: the value of the observation after the rollout, ``(envs,)``.
        ends: whether an episode ended with that step, ``(steps, envs)``.
        gamma: the discount.
        gae_lambda: the weight between one-step (0) and Monte Carlo (1) estimates.

    Returns:
        The advantage of each step, ``(steps, envs)``.
    """
    goes_on = 1.0 - ends.astype(np.float32)
    next_values = np.concatenate([values[1:], last_value[None]])
    deltas = rewards + gamma * next_values * goes_on - values
    decay = (gamma * gae_lambda) * goes_on
    advantages = np.empty_like(deltas)
    following = np.zeros_like(last_value)
    for t in range(len(deltas) - 1, -1, -1):
        following = deltas[t] + decay[t] * following
        advantages[t] = following
    return advantages


def q_lambda_returns(
    rewards: np.ndarray,
    values: np.ndarray,
    last_value: np.ndarray,
    ends: np.ndarray,
    gamma: float,
    q_lambda: float,
) -> np.ndarray:
    """Peng's Q(lambda) returns: a blend of the greedy value and what was really earned.

    Args:
        rewards: ``(steps, envs)``, with ``gamma * V(final observation)`` added where an
            episode was truncated.
        values: the greedy value of each observation, ``(steps, envs)``.
        last_value: the greedy value of the observation after the rollout, ``(envs,)``.
        ends: whether an episode ended with that step, ``(steps, envs)``.
        gamma: the discount.
        q_lambda: the weight between one-step (0) and Monte Carlo (1) returns.

    Returns:
        The return of each step, ``(steps, envs)``.
    """
    decay = gamma * (1.0 - ends.astype(np.float32))
    returns = np.empty_like(rewards)
    following = next_value = last_value
    for t in range(len(rewards) - 1, -1, -1):
        following = rewards[t] + decay[t] * (q_lambda * following + (1 - q_lambda) * next_value)
        returns[t] = following
        next_value = values[t]
    return returns
