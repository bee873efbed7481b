"""The small model writes replies to many prompts at once, in this process."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from llm_worker.model.tokenizer import ASSISTANT, END, USER, Tokenizer
from llm_worker.model.train import Llama, Past

# A reason and an action take about twenty tokens; what is longer is no reply.
LONGEST_REPLY = 48


class Writer:
    """A model with its tokenizer."""

    def __init__(self, model: Llama, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._user, self._assistant, self._end = (
            tokenizer.number(token) for token in (USER, ASSISTANT, END)
        )

    def asked(self, prompt: str) -> list[int]:
        """A prompt as the model reads it."""
        return [self._user, *self.tokenizer.encode(prompt), self._assistant]

    @torch.no_grad()
    def write(
        self, prompts: Sequence[list[int]], temperature: float, chance: torch.Generator
    ) -> list[list[int]]:
        """A reply to each prompt, with its end; the likeliest words at temperature 0.

        Args:
            prompts: Each as `asked` gives it.
            temperature: How freely words are chosen.
            chance: Where they are drawn from.
        """
        device = next(self.model.parameters()).device
        longest = max(len(prompt) for prompt in prompts)
        # Filled up from the left, so that every reply begins in the same column.
        empty = torch.tensor([longest - len(prompt) for prompt in prompts], device=device)
        tokens = torch.tensor(
            [[self._end] * (longest - len(p)) + list(p) for p in prompts], device=device
        )
        past = [Past() for _ in self.model.blk]
        column = torch.arange(longest, device=device)
        real = column >= empty[:, None]
        earlier = column[:, None] >= column
        # A filled-up place looks at itself: with nothing to look at, its numbers would be none.
        itself = torch.eye(longest, dtype=torch.bool, device=device)
        mask = ((real[:, None, :] & earlier) | itself)[:, None]
        places = (column - empty[:, None]).clamp(min=0)
        logits = self.model(tokens, places, past, mask)[:, -1]
        written: list[list[int]] = [[] for _ in prompts]
        open_rows = torch.ones(len(prompts), dtype=torch.bool, device=device)
        for number in range(LONGEST_REPLY):
            chosen = _choose(logits, temperature, chance)
            # One copy from the device for all rows: asking it for each would take longer than
            # the model itself.
            for reply, token, still in zip(
                written, chosen.tolist(), open_rows.tolist(), strict=True
            ):
                if still:
                    reply.append(token)
            open_rows &= chosen != self._end
            if not open_rows.any():
                break
            real = torch.cat((real, torch.ones_like(real[:, :1])), 1)
            places = (longest + number - empty)[:, None]
            logits = self.model(chosen[:, None], places, past, real[:, None, None])[:, -1]
        return written

    def text(self, reply: Sequence[int]) -> str:
        """A reply in words, without its end."""
        return self.tokenizer.decode([token for token in reply if token != self._end])


def _choose(logits: Tensor, temperature: float, chance: torch.Generator) -> Tensor:
    if not temperature:
        return logits.argmax(-1)
    # Drawn on the processor: the same generator gives the same words on every device.
    chances = torch.softmax(logits.float().cpu() / temperature, -1)
    drawn: Tensor = torch.multinomial(chances, 1, generator=chance).squeeze(1)
    return drawn.to(logits.device)
