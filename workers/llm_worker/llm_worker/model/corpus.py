"""Examples as one file of tokens, for the training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from llm_worker.describe.grid import COLORS
from llm_worker.model.examples import Example
from llm_worker.model.tokenizer import ASSISTANT, END, USER, Tokenizer

# Things that may take each other's place in an example; doors open, goals do not.
EXCHANGEABLE_KINDS = ("ball", "box", "key")
MOST_PAIRS = 600


def write_corpus(found: Sequence[Example], path: Path) -> Tokenizer:
    """Learn the tokens and write the examples; returns the tokenizer.

    The file has all examples in one row, the length of each, and where its reply begins.
    """
    tokenizer = _tokenizer(found)
    user, assistant, end = (tokenizer.number(token) for token in (USER, ASSISTANT, END))
    tokens: list[int] = []
    lengths, replies = [], []
    for prompt, reply in found:
        question = [user, *tokenizer.encode(prompt), assistant]
        answer = [*tokenizer.encode(reply), end]
        tokens += question + answer
        lengths.append(len(question) + len(answer))
        replies.append(len(question))
    np.savez_compressed(
        path,
        tokens=np.array(tokens, np.uint16),
        lengths=np.array(lengths, np.uint16),
        replies=np.array(replies, np.uint16),
        colors=np.array([tokenizer.number(f" {name}") for name in COLORS]),
        kinds=np.array([tokenizer.number(f" {name}") for name in EXCHANGEABLE_KINDS]),
        vocabulary=len(tokenizer.tokens),
        merges=json.dumps(list(tokenizer.merges)),
    )
    return tokenizer


def _tokenizer(found: Sequence[Example]) -> Tokenizer:
    """The tokens of the examples, among them each word that may take another one's place."""
    texts = [text for pair in found for text in pair]
    exchanged = [f" {name}" for name in (*COLORS, *EXCHANGEABLE_KINDS)]
    tokenizer = Tokenizer.train(texts, MOST_PAIRS)
    if all(tokenizer.has(word) for word in exchanged):
        return tokenizer
    # A few episodes, such as a person's, do not name every colour.
    return Tokenizer.train([*texts, *exchanged], MOST_PAIRS)


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a corpus."""
    with np.load(path) as file:
        return Tokenizer([(left, right) for left, right in json.loads(str(file["merges"]))])
