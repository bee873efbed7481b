"""Many episodes side by side, all played by one small model in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from llm_worker.learn.writing import Writer
from llm_worker.play.answers import Decision, read_answer
from llm_worker.play.world import World


@dataclass(frozen=True)
class Moment:
    """What the model read and what it wrote, as tokens."""

    asked: list[int]
    wrote: list[int]


@dataclass
class Episode:
    """One episode.

    Attributes:
        success: Whether it reached its goal; False when it was cut.
    """

    seed: int
    total: float = 0.0
    steps: int = 0
    success: bool = False
    moments: list[Moment] = field(default_factory=list)


class Playground:
    """Worlds of one kind, made once and used again."""

    def __init__(self, env_id: str, longest: int) -> None:
        self._env_id, self._longest = env_id, longest
        self._worlds: list[World] = []

    def play(
        self, writer: Writer, seeds: Sequence[int], temperature: float, chance: torch.Generator
    ) -> list[Episode]:
        """Play one episode for each seed; a seed may come several times."""
        while len(self._worlds) < len(seeds):
            self._worlds.append(World(self._env_id, self._longest))
        episodes = [Episode(seed) for seed in seeds]
        for world, episode in zip(self._worlds, episodes, strict=False):
            world.begin(episode.seed)
        running = list(range(len(seeds)))
        while running:
            asked = [writer.asked(self._worlds[at].text()) for at in running]
            replies = writer.write(asked, temperature, chance)
            running = [
                at
                for at, question, reply in zip(running, asked, replies, strict=True)
                if not self._step(self._worlds[at], episodes[at], writer, question, reply)
            ]
        return episodes

    def close(self) -> None:
        """Close the worlds."""
        for world in self._worlds:
            world.close()

    def _step(
        self, world: World, episode: Episode, writer: Writer, asked: list[int], wrote: list[int]
    ) -> bool:
        """Do what the model wrote; whether the episode is over."""
        answer = read_answer(writer.text(wrote), world.actions)
        action = answer.action if isinstance(answer, Decision) else world.actions.default
        outcome = world.act(action)
        episode.moments.append(Moment(asked, wrote))
        episode.total += outcome.reward
        episode.steps += 1
        episode.success = bool(outcome.success)
        return outcome.ended
