"""Training of the small language model: torch and NumPy, nothing else.

The model is a llama: RMS norms, rotary positions, gated feed-forward layers. It learns to write
the reply that follows a prompt. Colors and kinds of things are renamed at random in every batch:
the model cannot learn layouts by heart and has to bind the goal's words to what is seen.

Run as a file, it needs none of this package's other modules, so that a machine with a GPU and
nothing but torch can train it: `python train.py --data examples.npz --out weights.npz`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

ROPE_BASE = 10_000.0
NORM_EPSILON = 1e-5
RATE = 2e-3


class LearnerState(TypedDict):
    """What another process needs to continue a training."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, object]
    # Where the random numbers are: those of imitation, and those of rounds of play.
    generator: NotRequired[Tensor]
    chance: NotRequired[Tensor]


@dataclass(frozen=True)
class Shape:
    """The size of the model."""

    vocabulary: int
    width: int = 128
    layers: int = 4
    heads: int = 4
    hidden: int = 384


@dataclass
class Past:
    """What a layer has seen of a text that is still being written."""

    key: Tensor | None = None
    value: Tensor | None = None

    def grow(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add what was just seen; returns all of it."""
        if self.key is not None and self.value is not None:
            key, value = torch.cat((self.key, key), 2), torch.cat((self.value, value), 2)
        self.key, self.value = key, value
        return key, value


class Layer(nn.Module):
    """One block of attention and feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attn_norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.attn_q = nn.Linear(width, width, bias=False)
        self.attn_k = nn.Linear(width, width, bias=False)
        self.attn_v = nn.Linear(width, width, bias=False)
        self.attn_output = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.ffn_gate = nn.Linear(width, shape.hidden, bias=False)
        self.ffn_up = nn.Linear(width, shape.hidden, bias=False)
        self.ffn_down = nn.Linear(shape.hidden, width, bias=False)

    def forward(
        self,
        x: Tensor,
        cosine: Tensor,
        sine: Tensor,
        past: Past | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        batch, length, width = x.shape
        normed = self.attn_norm(x)
        split = (batch, length, self.heads, width // self.heads)
        query = rotate(self.attn_q(normed).view(split), cosine, sine).transpose(1, 2)
        key = rotate(self.attn_k(normed).view(split), cosine, sine).transpose(1, 2)
        value = self.attn_v(normed).view(split).transpose(1, 2)
        if past is not None:
            key, value = past.grow(key, value)
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )
        x = x + self.attn_output(seen.transpose(1, 2).reshape(batch, length, width))
        normed = self.ffn_norm(x)
        gated = functional.silu(self.ffn_gate(normed)) * self.ffn_up(normed)
        added: Tensor = x + self.ffn_down(gated)
        return added


class Llama(nn.Module):
    """The whole model; the names of its parts are those of a GGUF file."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocabulary, shape.width)
        self.blk = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.width, eps=NORM_EPSILON)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)
        for name, weights in self.named_parameters():
            if weights.dim() == 2:
                scale = 0.02 / math.sqrt(2 * shape.layers) if "output" in name else 0.02
                nn.init.normal_(weights, std=scale)

    def forward(
        self,
        tokens: Tensor,
        places: Tensor | None = None,
        past: Sequence[Past] | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The chances of each next token.

        Args:
            tokens: One row for each text.
            places: Where each token is in its text; counted from the left by default.
            past: What each layer has seen before these tokens; grows.
            mask: Which tokens each one may look at; those before it by default.
        """
        here = torch.arange(tokens.shape[1], device=tokens.device) if places is None else places
        cosine, sine = angles(here, self.shape.width // self.shape.heads)
        x = self.token_embd(tokens)
        for number, layer in enumerate(self.blk):
            x = layer(x, cosine, sine, past[number] if past else None, mask)
        logits: Tensor = self.output(self.output_norm(x))
        return logits


def angles(places: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary positions."""
    speeds = ROPE_BASE ** (-torch.arange(0, width, 2, device=places.device) / width)
    turned = places[..., None] * speeds
    return turned.cos()[..., None, :], turned.sin()[..., None, :]


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn neighbouring pairs of numbers, as llama.cpp does for this architecture."""
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1)
    return turned.flatten(-2).to(x.dtype)


@dataclass(frozen=True)
class Corpus:
    """Examples as one long row of tokens on the training device."""

    tokens: Tensor
    starts: Tensor
    lengths: Tensor
    replies: Tensor
    exchangeable: Sequence[Sequence[int]]
    vocabulary: int

    @classmethod
    def load(cls, path: Path, device: torch.device) -> Corpus:
        """Read the file that `llm_worker.model.corpus` wrote."""
        with np.load(path) as file:
            lengths = torch.from_numpy(file["lengths"].astype(np.int64))
            return cls(
                tokens=torch.from_numpy(file["tokens"].astype(np.int64)).to(device),
                starts=(lengths.cumsum(0) - lengths).to(device),
                lengths=lengths.to(device),
                replies=torch.from_numpy(file["replies"].astype(np.int64)).to(device),
                exchangeable=[file["colors"].tolist(), file["kinds"].tolist()],
                vocabulary=int(file["vocabulary"]),
            )

    def batch(self, chosen: Tensor, renaming: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets; a target of -100 does not count."""
        longest = int(self.lengths[chosen].max())
        column = torch.arange(longest, device=self.tokens.device)
        inside = column < self.lengths[chosen][:, None]
        places = (self.starts[chosen][:, None] + column).clamp(max=len(self.tokens) - 1)
        tokens = renaming.gather(1, self.tokens[places] * inside)
        counted = inside & (column >= self.replies[chosen][:, None])
        targets = torch.where(counted, tokens, -100)
        return tokens[:, :-1], targets[:, 1:]

    def renamings(self, count: int, generator: torch.Generator) -> Tensor:
        """For each example another exchange of the colors and of the kinds of things."""
        table = torch.arange(self.vocabulary).repeat(count, 1)
        for group in self.exchangeable:
            names = torch.tensor(group)
            order = torch.rand(count, len(group), generator=generator).argsort(1)
            table[:, names] = names[order]
        return table.to(self.tokens.device)


class Update(NamedTuple):
    """What one step of a training saw."""

    loss: Tensor
    logits: Tensor
    targets: Tensor


class Imitation:
    """Learning to write replies, one update after the other.

    It can be stopped after any update and continued by another process as if it had not been:
    `state` is everything that the next update depends on beside the arguments.

    Attributes:
        step: Updates so far.
    """

    def __init__(
        self, corpus: Corpus, shape: Shape, steps: int, batch: int, rate: float, seed: int
    ) -> None:
        """Begin with random weights; the same arguments give the same model on one device."""
        torch.manual_seed(seed)
        self._corpus, self._steps, self._batch, self._rate = corpus, steps, batch, rate
        self._generator = torch.Generator().manual_seed(seed)
        self._device = corpus.tokens.device
        self.model = Llama(shape).to(self._device)
        self._optimizer = adam(self.model, rate)
        self.step = 0

    def advance(self) -> Update:
        """Learn from one batch."""
        device, generator = self._device, self._generator
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate * schedule(self.step, self._steps)
        among = len(self._corpus.starts)
        chosen = torch.randint(among, (self._batch,), generator=generator).to(device)
        renamed = self._corpus.renamings(self._batch, generator)
        inputs, targets = self._corpus.batch(chosen, renamed)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = self.model(inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        improve(self.model, self._optimizer, [loss])
        self.step += 1
        return Update(loss, logits, targets)

    def state(self) -> LearnerState:
        """What another process needs to continue."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "generator": self._generator.get_state(),
        }

    def restore(self, state: LearnerState) -> None:
        """Continue from what `state` gave."""
        self.step = int(state["step"])
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._generator.set_state(state["generator"])


def adam(model: Llama, rate: float) -> torch.optim.AdamW:
    """The optimizer of every training here."""
    fused = next(model.parameters()).device.type == "cuda"
    return torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.05, fused=fused
    )


def improve(model: Llama, optimizer: torch.optim.Optimizer, losses: Iterable[Tensor]) -> None:
    """One step down the gradient of a sum, which may not be long.

    Args:
        model: What learns.
        optimizer: Takes the step.
        losses: The parts of the sum; each is computed when the one before it is done with, so
            that the memory of one part is enough for all.
    """
    optimizer.zero_grad(set_to_none=True)
    for loss in losses:
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def train(
    corpus: Corpus,
    shape: Shape,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    report: Callable[[str], None],
) -> Llama:
    """Train from random weights; the same arguments give the same model on the same device."""
    training = Imitation(corpus, shape, steps, batch, rate, seed)
    began = time.monotonic()
    for step in range(steps):
        update = training.advance()
        if step % 200 == 0 or step == steps - 1:
            right, loss = accuracy(update.logits, update.targets), update.loss.item()
            spent = time.monotonic() - began
            report(f"step {step} loss {loss:.4f} replies right {right:.3f} {spent:.0f} s")
    return training.model


def schedule(step: int, steps: int) -> float:
    """Warm up, then fall along a cosine to a fiftieth."""
    warm = min(500, steps // 10 + 1)
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def accuracy(logits: Tensor, targets: Tensor) -> float:
    """The share of replies of which every token is the likeliest one."""
    right = (logits.argmax(-1) == targets) | (targets == -100)
    return float(right.all(1).float().mean())


def save(model: Llama, path: Path) -> None:
    """Write the weights under their GGUF names."""
    arrays = {
        name: weights.detach().float().cpu().numpy() for name, weights in model.named_parameters()
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    corpus = Corpus.load(options.data, torch.device(options.device))
    shape = Shape(corpus.vocabulary, options.width, options.layers, options.heads, options.hidden)
    model = train(
        corpus,
        shape,
        options.steps,
        options.batch,
        options.rate,
        options.seed,
        lambda line: print(line, flush=True),
    )
    save(model, options.out)


if __name__ == "__main__":
    main()
