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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

ROPE_BASE = 10_000.0
NORM_EPSILON = 1e-5
RATE = 2e-3


@dataclass(frozen=True)
class Shape:
    """The size of the model."""

    vocabulary: int
    width: int = 128
    layers: int = 4
    heads: int = 4
    hidden: int = 384


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

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, width = x.shape
        normed = self.attn_norm(x)
        split = (batch, length, self.heads, width // self.heads)
        query = rotate(self.attn_q(normed).view(split), cosine, sine).transpose(1, 2)
        key = rotate(self.attn_k(normed).view(split), cosine, sine).transpose(1, 2)
        value = self.attn_v(normed).view(split).transpose(1, 2)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
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

    def forward(self, tokens: Tensor) -> Tensor:
        cosine, sine = angles(tokens.shape[1], self.shape.width // self.shape.heads, tokens.device)
        x = self.token_embd(tokens)
        for layer in self.blk:
            x = layer(x, cosine, sine)
        logits: Tensor = self.output(self.output_norm(x))
        return logits


def angles(length: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary positions."""
    speeds = ROPE_BASE ** (-torch.arange(0, width, 2, device=device) / width)
    turned = torch.outer(torch.arange(length, device=device), speeds)
    return turned.cos()[:, None, :], turned.sin()[:, None, :]


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
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    device = corpus.tokens.device
    model = Llama(shape).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=rate,
        betas=(0.9, 0.98),
        weight_decay=0.05,
        fused=device.type == "cuda",
    )
    began = time.monotonic()
    half = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * schedule(step, steps)
        chosen = torch.randint(len(corpus.starts), (batch,), generator=generator).to(device)
        inputs, targets = corpus.batch(chosen, corpus.renamings(batch, generator))
        with half:
            logits = model(inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 200 == 0 or step == steps - 1:
            right = accuracy(logits, targets)
            spent = time.monotonic() - began
            report(f"step {step} loss {loss.item():.4f} replies right {right:.3f} {spent:.0f} s")
    return model


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
