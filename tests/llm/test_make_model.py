"""The small model is made from nothing, the same each time, and can be served at once."""

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from llm_worker.embedded.server import EmbeddedServer
from llm_worker.errors import RecordError
from llm_worker.model.corpus import read_tokenizer, write_corpus
from llm_worker.model.examples import Example
from llm_worker.model.recorded import from_recorded
from llm_worker.model.tokenizer import Tokenizer
from llm_worker.play.actions import Choices
from llm_worker.play.answers import Decision, read_answer
from llm_worker.play.client import ChatClient, Patience
from llm_worker.play.prompts import Sampling, request_body
from llm_worker.play.records import StepRecord


def test_texts_are_cut_into_words_and_nothing_is_lost() -> None:
    """Known words are one token each; any other text is spelled, to the last byte."""
    texts = ["Goal: go to the red ball", "Goal: go to the blue ball"]
    tokenizer = Tokenizer.train(texts * 3, 200)
    assert len(tokenizer.encode(texts[0])) == 7
    for text in (*texts, "Grüße, 你好\n\t<|end|>"):
        tokens = [tokenizer.tokens[number] for number in tokenizer.encode(text)]
        assert _decoded("".join(tokens)) == text


def test_a_single_short_episode_is_enough_to_imitate(tmp_path: Path) -> None:
    """A person's one game names one colour; the others have tokens all the same."""
    found = [Example("Goal: go to the red ball", '{"reasoning": "", "action": "go forward"}')]
    tokenizer = write_corpus(found, tmp_path / "examples.npz")
    for word in (" red", " blue", " key"):
        assert len(tokenizer.encode(word)) == 1
    assert read_tokenizer(tmp_path / "examples.npz").merges == tokenizer.merges


def _decoded(characters: str) -> str:
    from llm_worker.model.tokenizer import BYTES

    return bytes(BYTES.index(character) for character in characters).decode()


def test_only_what_was_decided_on_the_way_to_a_success_is_imitated(tmp_path: Path) -> None:
    """Lost episodes and default actions teach nothing; a run that won nothing is refused."""
    lines = [
        _step(0, 0, "go forward", valid=False),
        _step(0, 1, "turn left", success=True),
        _step(1, 0, "toggle", success=False),
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(lines))
    answer = '{"reasoning": "why", "action": "turn left"}'
    assert from_recorded(path) == [Example("seen at 0, 1", answer)]
    path.write_text(lines[2])
    with pytest.raises(RecordError, match="no episode was won"):
        from_recorded(path)


def _step(
    episode: int, step: int, action: str, *, valid: bool = True, success: bool | None = None
) -> str:
    record = StepRecord(
        episode=episode,
        step=step,
        text=f"seen at {episode}, {step}",
        requests=["a"],
        reply="",
        reasoning="why",
        action=1,
        action_name=action,
        valid=valid,
        probability=None,
        reward=0.0,
        terminated=success is not None,
        truncated=False,
        success=success,
        tokens_in=1,
        tokens_out=1,
        tokens_cached=0,
        cost=0.0,
        seconds=0.1,
    )
    return json.dumps(asdict(record)) + "\n"


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
