"""Group relative policy optimisation (Shao et al. 2024) for the small model.

Each round the model plays every world several times. An episode is judged against the others in
the same world: what is hard about a world is hard for all of them, and no critic is needed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from llm_worker.learn.playing import Episode, Playground
from llm_worker.learn.settings import GrpoSettings
from llm_worker.learn.writing import Writer
from llm_worker.model.examples import FIRST_TRAINING_SEED
from llm_worker.model.tokenizer import Tokenizer
from llm_worker.model.train import LearnerState, Llama, adam, improve

# Moments that are computed at once; more would not fit beside the rest of a small machine.
_AT_ONCE = 256
_SMALLEST_SPREAD = 1e-4
# What was asked, what was written, how good the episode was, and the weight of each token.
_Judged = tuple[list[int], list[int], float, float]


class _Part(NamedTuple):
    """Texts of one length, with the weight of each token and its chances before learning."""

    tokens: Tensor
    counted: Tensor
    worth: Tensor
    before: Tensor
    first: Tensor


class GroupLearning:
    """Rounds of play and learning.

    Attributes:
        step: Rounds so far.
        model: The model that learns.
        writer: Writes its replies.
    """

    def __init__(self, settings: GrpoSettings, model: Llama, tokenizer: Tokenizer) -> None:
        self._settings = settings
        self.model = model
        self._first = copy.deepcopy(model).requires_grad_(False)
        self.writer = Writer(model, tokenizer)
        self._ground = Playground(settings.env_id, settings.longest)
        self._optimizer = adam(model, settings.learning_rate)
        self._chance = torch.Generator().manual_seed(settings.seed)
        self.step = 0

    def advance(self) -> dict[str, float]:
        """Play one round and learn from it."""
        settings = self._settings
        first = FIRST_TRAINING_SEED + settings.seed * 10_000_019 + self.step * settings.groups
        worlds = [(first + at) % 2**31 for at in range(settings.groups)]
        seeds = [seed for seed in worlds for _ in range(settings.group_size)]
        episodes = self._ground.play(self.writer, seeds, settings.temperature, self._chance)
        losses = self.learn(episodes, advantages(episodes, settings.group_size))
        self.step += 1
        count = len(episodes)
        return {
            "episodic_return": sum(episode.total for episode in episodes) / count,
            "episodic_length": sum(episode.steps for episode in episodes) / count,
            "success": sum(episode.success for episode in episodes) / count,
            **losses,
        }

    def state(self) -> LearnerState:
        """What another process needs to continue; the first model is a file of the run."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "chance": self._chance.get_state(),
        }

    def restore(self, state: LearnerState) -> None:
        """Continue from what `state` gave."""
        self.step = int(state["step"])
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._chance.set_state(state["chance"])

    def learn(self, episodes: Sequence[Episode], judged: Sequence[float]) -> dict[str, float]:
        """Make the replies of better episodes likelier, those of worse ones less likely."""
        moments: list[_Judged] = []
        for episode, worth in zip(episodes, judged, strict=True):
            # Where all episodes of a world ended alike there is nothing to learn.
            if worth:
                # An episode counts once, however long it is: failures are the long ones, and
                # token by token they would outweigh what the good ones show.
                share = 1 / sum(len(moment.wrote) for moment in episode.moments)
                moments += [(one.asked, one.wrote, worth, share) for one in episode.moments]
        total = {"losses/policy": 0.0, "losses/kl": 0.0}
        if not moments:
            return total
        order = torch.randperm(len(moments), generator=self._chance).tolist()
        size = math.ceil(len(moments) / self._settings.minibatches)
        starts = range(0, len(order), size)
        # All minibatches are divided by the same number: what an episode counts for must not
        # depend on which moments it was shuffled together with.
        episodes_each = sum(1 for worth in judged if worth) / len(starts)
        minibatches = [
            self._minibatch([moments[at] for at in order[start : start + size]], episodes_each)
            for start in starts
        ]
        for _ in range(self._settings.epochs):
            for minibatch in minibatches:
                improve(self.model, self._optimizer, self._losses(minibatch, total))
        updates = self._settings.epochs * len(minibatches)
        return {name: value / updates for name, value in total.items()}

    def _minibatch(self, moments: Sequence[_Judged], episodes: float) -> list[_Part]:
        """What one update learns from, in parts that fit into memory."""
        device = next(self.model.parameters()).device
        parts = []
        for start in range(0, len(moments), _AT_ONCE):
            chosen = moments[start : start + _AT_ONCE]
            tokens, counted = _padded([(asked, wrote) for asked, wrote, *_ in chosen], device)
            worths = torch.tensor([one[2] for one in chosen], device=device)
            counted *= torch.tensor([one[3] / episodes for one in chosen], device=device)[:, None]
            with torch.no_grad():
                before = log_chances(self.model, tokens)
                first = log_chances(self._first, tokens)
            parts.append(_Part(tokens, counted, worths[:, None], before, first))
        return parts

    def _losses(self, minibatch: Sequence[_Part], total: dict[str, float]) -> Iterator[Tensor]:
        """The loss of each part; their sum is that of the minibatch, and is added to `total`."""
        clip = self._settings.clip
        for part in minibatch:
            now = log_chances(self.model, part.tokens)
            ratio = (now - part.before).exp()
            clipped = ratio.clamp(1 - clip, 1 + clip)
            gain = torch.minimum(ratio * part.worth, clipped * part.worth)
            # How far the model is from the one it began with, never negative (Schulman's k3).
            apart = (part.first - now).exp() - (part.first - now) - 1
            policy, kl = -(gain * part.counted).sum(), (apart * part.counted).sum()
            total["losses/policy"] += policy.item()
            total["losses/kl"] += kl.item()
            yield policy + self._settings.kl * kl


def advantages(episodes: Sequence[Episode], size: int) -> list[float]:
    """How much better each episode was than the others of its world, in their spread."""
    judged: list[float] = []
    for start in range(0, len(episodes), size):
        totals = torch.tensor([one.total for one in episodes[start : start + size]])
        spread = totals.std(correction=0)
        if spread < _SMALLEST_SPREAD:
            judged += [0.0] * size
        else:
            judged += ((totals - totals.mean()) / spread).tolist()
    return judged


def log_chances(model: Llama, tokens: Tensor) -> Tensor:
    """The logarithm of the chance of each token after the first, given those before it."""
    chances = functional.log_softmax(model(tokens[:, :-1]).float(), -1)
    found: Tensor = chances.gather(2, tokens[:, 1:, None]).squeeze(2)
    return found


def _padded(
    pairs: Sequence[tuple[list[int], list[int]]], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Texts of one length, and which of their tokens (after the first) the model wrote."""
    longest = max(len(asked) + len(wrote) for asked, wrote in pairs)
    rows, marks = [], []
    for asked, wrote in pairs:
        filled = longest - len(asked) - len(wrote)
        rows.append([*asked, *wrote, *[0] * filled])
        marks.append([0] * (len(asked) - 1) + [1] * len(wrote) + [0] * filled)
    return torch.tensor(rows, device=device), torch.tensor(marks, device=device).float()
