"""Whether an algorithm can act in an environment, said in one sentence when it cannot."""

from __future__ import annotations

from gymnasium import spaces

from cleanrl_worker.kit import observations
from cleanrl_worker.kit.types import Space
from cleanrl_worker.running.schema import Declaration

_ALTERNATIVES = {
    "discrete": "ppo, dqn, c51 or pqn",
    "continuous": "ppo_continuous_action, sac_continuous_action, td3_continuous_action, "
    "ddpg_continuous_action or rpo_continuous_action",
    "multi_discrete": "ppo",
}
_ENVIRONMENTS = {
    "discrete": "CartPole-v1",
    "continuous": "Pendulum-v1",
    "multi_discrete": "any with a MultiDiscrete action space",
}


def action_kind(space: Space) -> str:
    """`discrete`, `continuous`, `multi_discrete`, or the space's own name."""
    if isinstance(space, spaces.Discrete):
        return "discrete"
    if isinstance(space, spaces.Box):
        return "continuous"
    if isinstance(space, spaces.MultiDiscrete):
        return "multi_discrete"
    return type(space).__name__


def fit_problem(
    name: str,
    algorithm: Declaration,
    env_id: str,
    observation_space: Space,
    action_space: Space,
) -> str | None:
    """Check an environment's spaces against what an algorithm's file declares.

    Args:
        name: The algorithm's name.
        algorithm: Its `ALGORITHM` declaration.
        env_id: The environment's id, for the sentence.
        observation_space: The environment's observation space, encoded or not.
        action_space: The environment's action space.

    Returns:
        None when they fit, otherwise one sentence with a way out.
    """
    actions = action_kind(action_space)
    if actions not in algorithm["actions"]:
        wanted = algorithm["actions"][0]
        others = (
            f" or train {env_id} with {_ALTERNATIVES[actions]}" if actions in _ALTERNATIVES else ""
        )
        return (
            f"{name} acts on {' or '.join(algorithm['actions'])} actions, but {env_id} has "
            f"{actions} ones: choose an environment such as {_ENVIRONMENTS[wanted]}{others}."
        )
    encoded, _ = observations.encoder(observation_space)
    kind = observations.kind(encoded)
    if kind not in algorithm["observations"]:
        other = "ppo_atari" if kind == "image" else "ppo"
        return (
            f"{name} learns from {' or '.join(algorithm['observations'])} observations, but "
            f"{env_id} gives {kind} ones of shape {encoded.shape}: use --env-id "
            f"{algorithm['default_env']} or an algorithm such as {other}."
        )
    return None
