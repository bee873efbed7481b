"""Games of our own: `mosaic/Catch-v0` with pixels and lives, `mosaic/Recall-v0` for memories.

`mosaic/Doubles-v0` is a game for two; `kit.pettingzoo` makes it, as it makes those of PettingZoo.
"""

from gymnasium import register

PREFIX = "mosaic/"

# Raw frames: a quarter as many steps of a policy that holds each action for four frames.
register(
    "mosaic/Catch-v0",
    entry_point="cleanrl_worker.games.catch:Catch",
    max_episode_steps=1000,
)
# A walk takes nine steps; a player who wanders to and fro is stopped.
register(
    "mosaic/Recall-v0",
    entry_point="cleanrl_worker.games.recall:Recall",
    max_episode_steps=40,
)
