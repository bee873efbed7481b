"""The small model is made from nothing, the same each time, and can be served at once."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from llm_worker.embedded.server import EmbeddedServer
from llm_worker.model.tokenizer import Tokenizer
from llm_worker.play.actions import Choices
from llm_worker.play.answers import Decision, read_answer
from llm_worker.play.client import ChatClient, Patience
from llm_worker.play.prompts import Sampling, request_body


def test_texts_are_cut_into_words_and_nothing_is_lost() -> None:
    """Known words are one token each; any other text is spelled, to the last byte."""
    texts = ["Goal: go to the red ball", "Goal: go to the blue ball"]
    tokenizer = Tokenizer.train(texts * 3, 200)
    assert len(tokenizer.encode(texts[0])) == 7
    for text in (*texts, "Grüße, 你好\n\t<|end|>"):
        tokens = [tokenizer.tokens[number] for number in tokenizer.encode(text)]
        assert _decoded("".join(tokens)) == text


def _decoded(characters: str) -> str:
    from llm_worker.model.tokenizer import BYTES

    return bytes(BYTES.index(character) for character in characters).decode()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_model_is_made_twice_alike_and_serves(tmp_path: Path) -> None:
    """Examples, training and export: two files, equal to the byte, that serve at once."""
    pytest.importorskip("gguf")
    digests = []
    for name in ("one.gguf", "two.gguf"):
        command = [sys.executable, "-m", "llm_worker.model.make", str(tmp_path / name)]
        command += ["--episodes", "24", "--steps", "3", "--batch", "8", "--device", "cpu"]
        subprocess.run(command, check=True, capture_output=True, timeout=200)
        digests.append(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    assert json.loads((tmp_path / "one.json").read_text())["sha256"] == digests[0]
    server = EmbeddedServer(str(tmp_path / "one.gguf"))
    actions = Choices(("yes", "no"))
    body = request_body("", [], "Goal: x", "schema", actions, Sampling("", 0.0, 800, 1))
    try:
        with ChatClient(server.where, Patience(60, 3, 60)) as client:
            answer = read_answer(client.ask(body).reply.text, actions)
    finally:
        server.close()
    assert isinstance(answer, Decision)
