"""A byte-pair tokenizer that llama.cpp reads as `gpt2`, trained on our own examples.

The examples use few words, so that almost every word becomes one token, which keeps prompts short.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL = (USER, ASSISTANT, END)
# How GPT-2 cuts text before pairs are joined; llama.cpp does the same for `gpt-2`.
_PIECES = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

Pair = tuple[str, str]


def _byte_characters() -> list[str]:
    """One printable character for each byte, as GPT-2 has them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


BYTES = _byte_characters()
_BYTE_OF = {character: byte for byte, character in enumerate(BYTES)}


@dataclass
class Tokenizer:
    """Text to numbers and back.

    Attributes:
        merges: The pairs that are joined, most important first.
    """

    merges: Sequence[Pair]
    _ranks: dict[Pair, int] = field(init=False)
    _numbers: dict[str, int] = field(init=False)
    _known: dict[str, list[int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._numbers = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def train(cls, texts: Iterable[str], most: int) -> Tokenizer:
        """Learn at most `most` pairs; stops when every piece is one token."""
        counts = Counter(piece for text in texts for piece in _PIECES.findall(text))
        words = {piece: _characters(piece) for piece in sorted(counts)}
        merges: list[Pair] = []
        while len(merges) < most:
            pairs: Counter[Pair] = Counter()
            for piece, word in words.items():
                for pair in itertools.pairwise(word):
                    pairs[pair] += counts[piece]
            if not pairs:
                break
            # The text decides between equally frequent pairs: the same examples, the same tokens.
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            merges.append(best)
            words = {piece: _join(word, best) for piece, word in words.items()}
        return cls(merges)

    @property
    def tokens(self) -> list[str]:
        """Every token; its place is its number."""
        joined = [left + right for left, right in self.merges]
        return [*BYTES, *joined, *SPECIAL]

    def number(self, token: str) -> int:
        """The number of a special token, or of a word that is one token."""
        text = token if token in SPECIAL else "".join(_characters(token))
        return self._numbers[text]

    def has(self, word: str) -> bool:
        """Whether a word is one token."""
        return "".join(_characters(word)) in self._numbers

    def encode(self, text: str) -> list[int]:
        """The numbers of a text without special tokens."""
        numbers: list[int] = []
        for piece in _PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = self._encode(piece)
            numbers += self._known[piece]
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers; bytes that are no text become question marks."""
        tokens = self.tokens
        characters = "".join(tokens[number] for number in numbers if tokens[number] not in SPECIAL)
        return bytes(_BYTE_OF[character] for character in characters).decode(errors="replace")

    def _encode(self, piece: str) -> list[int]:
        word = _characters(piece)
        while len(word) > 1:
            pairs = list(itertools.pairwise(word))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            word = _join(word, best)
        return [self._numbers[token] for token in word]


def _characters(piece: str) -> list[str]:
    return [BYTES[byte] for byte in piece.encode()]


def _join(word: Sequence[str], pair: Pair) -> list[str]:
    joined: list[str] = []
    at = 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            joined.append(word[at] + word[at + 1])
            at += 2
        else:
            joined.append(word[at])
            at += 1
    return joined
