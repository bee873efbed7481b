"""Games of our own, for learning from pixels without a ROM: registers `mosaic/Catch-v0`."""

from gymnasium import register

PREFIX = "mosaic/"

# Raw frames: a quarter as many steps of a policy that holds each action for four frames.
register(
    "mosaic/Catch-v0",
    entry_point="cleanrl_worker.games.catch:Catch",
    max_episode_steps=1000,
)
