"""A model server that does everything wrong that servers do, over real HTTP."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY

import pytest
from support.chat_server import Body, ChatServer, Fault, chat_server
from support.patience import PATIENCE_S

from llm_worker.errors import ModelError
from llm_worker.play.client import ChatClient, Patience
from llm_worker.play.plans import Plan
from llm_worker.play.records import RunRecords
from llm_worker.play.replies import Reply
from llm_worker.process import LlmProcess
from llm_worker.run import play
from llm_worker.settings import from_config
from mosaic.workers import LifecycleEmitter

CANARY = "CANARY-llm-4c1d-do-not-show"
BODY: dict[str, object] = {"messages": [{"role": "user", "content": "x"}], "enum": ["a", "b"]}
QUICK = Patience(timeout_s=2.0, retries=3, limit_s=20.0)


def _ask(server: ChatServer, key: str = "", patience: Patience = QUICK) -> Reply:
    with ChatClient(lambda: (server.url, key), patience) as client:
        return client.ask(json.loads(json.dumps(BODY))).reply


@pytest.mark.parametrize("fault", [429, 500, 503, "cut", "reset", "garbage", "other json", "huge"])
def test_a_failure_that_passes_is_survived(fault: Fault) -> None:
    """Overload, errors, cut, reset and senseless replies, 10 MB: the next attempt counts."""
    with chat_server() as server:
        server.faults = [fault]
        assert "action" in _ask(server).text


def test_a_server_that_never_answers_ends_with_a_clear_sentence() -> None:
    """Silence is given up after the timeout and the retries, not after hours."""
    with chat_server() as server:
        server.faults = ["silence"] * 9
        with pytest.raises(ModelError, match=r"after 2 attempts.*did not answer within 0\.2 s"):
            _ask(server, patience=Patience(0.2, 1, 20.0))


def test_a_refused_key_ends_at_once_and_is_not_repeated() -> None:
    """A server that shouts the wrong key back: one attempt, a hint, and no key in the message."""
    with chat_server(key="right") as server:
        with pytest.raises(ModelError, match="401") as refused:
            _ask(server, key=CANARY)
        assert CANARY not in str(refused.value)
        assert "api_key" in refused.value.hint
        assert server.seen_keys == {CANARY}


def _config(server: ChatServer, run_dir: Path, **settings: object) -> Path:
    given = {
        "model": f"{server.url}#m",
        "episodes": 1,
        "max_steps": 16,
        "frames": False,
        "price_in": 1.0,
        "price_out": 2.0,
        **settings,
    }
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "config.json"
    fields = {"env_id": "CliffWalking-v1", "seed": 3, "extras": {"algo_params": given}}
    path.write_text(json.dumps(fields))
    return path


def _start(config: Path) -> subprocess.Popen[str]:
    run_dir = config.parent
    environment = {**os.environ, "MOSAIC_RUN_DIR": str(run_dir)}
    command = [sys.executable, "-m", "llm_worker.cli", "--config", str(config)]
    with (run_dir / "out.log").open("a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, text=True)


def _play(config: Path) -> None:
    """Play a whole run in this process, without a daemon."""
    settings = from_config(json.loads(config.read_text()))
    with open(os.devnull, "wb") as nowhere:
        process = LlmProcess({}, "standalone", config.parent)
        process.emit = LifecycleEmitter("standalone", nowhere.fileno())
        play(process, settings)


def _replies(run_dir: Path) -> dict[str, Reply]:
    records = RunRecords(run_dir)
    records.close()
    return records.replies


def _record(run_dir: Path) -> list[dict[str, object]]:
    records = RunRecords(run_dir)
    records.close()
    return [dict(step.comparable()) for step in records.done]


def _summary(run_dir: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((run_dir / "llm" / "summary.json").read_text())
    return document


def _wait_until_held(server: ChatServer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not server.holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _walks(*moves: str) -> Callable[[Body], str]:
    """A model that always plans the same walk."""
    return lambda body: json.dumps({"reasoning": "a walk", "actions": list(moves)})


def test_a_plan_is_followed_without_asking_until_the_world_stands_still(tmp_path: Path) -> None:
    """Three steps for one request; against the wall nothing changes, so the model is asked again.

    A run that is continued in the middle of a plan follows it to the same record.
    """
    with chat_server(_walks("up", "left", "right", "up")) as server:
        config = _config(server, tmp_path / "whole", plan=3, answer="schema", max_steps=6)
        _play(config)
        paid = server.answered.total()
        whole = RunRecords(tmp_path / "whole")
        whole.close()
        # Up, then left into the wall: a surprise. Up again, the wall again, and so on; what was
        # planned beyond three actions is not taken.
        assert [step.action_name for step in whole.done] == ["up", "left"] * 3
        assert [len(step.requests) for step in whole.done] == [1, 0] * 3
        assert (whole.done[1].reasoning, whole.done[1].tokens_out) == ("as planned", 0)
        cut = tmp_path / "cut" / "llm"
        cut.mkdir(parents=True)
        lines = (tmp_path / "whole" / "llm" / "steps.jsonl").read_text().splitlines(keepends=True)
        (cut / "steps.jsonl").write_text("".join(lines[:3]))
        (cut / "replies.jsonl").write_bytes(
            (tmp_path / "whole" / "llm" / "replies.jsonl").read_bytes()
        )
        _play(_config(server, cut.parent, plan=3, answer="schema", max_steps=6))
        assert server.answered.total() == paid
    again = RunRecords(cut.parent)
    again.close()
    assert [step.comparable() for step in again.done] == [step.comparable() for step in whole.done]


def test_a_plan_is_dropped_when_a_step_pays_otherwise() -> None:
    """A usual reward does not end a plan; another one does, whatever is seen."""
    plan = Plan()
    for number, reward, left in ((0, -1.0, 2), (1, -1.0, 1), (2, -100.0, None)):
        plan.took(f"row {number}", reward, (1, 2) if number == 0 else None)
        assert plan.next(f"row {number + 1}") == {2: 1, 1: 2}.get(left or 0)
    plan.took("row 3", -1.0, (3,))
    assert plan.next("row 4") is None  # back to the usual, which again is not what came before
    plan.begin()
    plan.took("a\nLast: x", 0.0, (3,))
    assert plan.next("a\nLast: x, y") is None


def test_a_killed_worker_continues_in_the_middle_and_pays_nothing_twice(tmp_path: Path) -> None:
    """Killed twice at different steps: the final record is that of an undisturbed run."""
    with chat_server() as server:
        _play(_config(server, tmp_path / "whole"))
        whole = _record(tmp_path / "whole")
        server.answered.clear()
        continued = ""
        for number, steps in enumerate((3, 11)):
            run_dir = tmp_path / f"killed-{number}"
            extra = {"checkpoint_path": continued} if continued else {}
            server.hold_after = steps
            worker = _start(_config(server, run_dir, **extra))
            # A count of requests, not of seconds: the kill comes in the middle on any machine.
            _wait_until_held(server)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            server.hold_after = None
            continued = str(run_dir)
        _play(_config(server, tmp_path / "last", checkpoint_path=continued))
        paid = server.answered.total()
    assert _record(tmp_path / "last") == whole
    assert len(whole) == 16
    # At most the request that was in flight at each kill is unanswered on our side.
    assert paid - len(_replies(tmp_path / "last")) <= 2
    mine, theirs = _summary(tmp_path / "last"), _summary(tmp_path / "whole")
    for same in ("tokens", "cost", "requests", "return", "success"):
        assert mine[same] == theirs[same]


def test_a_budget_stops_the_game_and_keeps_what_was_played(tmp_path: Path) -> None:
    """With tokens for about five steps, five are played, and the outcome says why it ended."""
    with chat_server() as server:
        config = _config(server, tmp_path, budget_tokens=700, max_tokens=10, answer="schema")
        _play(config)
    summary = _summary(tmp_path)
    assert summary["outcome"] == "budget"
    assert summary["tokens"] == {"in": 600, "out": 60, "cached": 0}
    assert len(_record(tmp_path)) == 6


def test_invalid_answers_get_feedback_then_the_default_action(tmp_path: Path) -> None:
    """A model that never keeps the format plays the default action, and every step says so."""

    def nonsense(body: Body) -> str:
        return f"hm {len(json.dumps(body))}"

    with chat_server(nonsense) as server:
        config = _config(
            server, tmp_path, episodes=1, max_steps=2, default_action="up", answer="text"
        )
        _play(config)
        last = json.dumps(server.bodies[-1])
    assert "was not valid" in last
    assert "Allowed: up, right, down, left" in last
    steps = _record(tmp_path)
    assert [(s["action_name"], s["valid"]) for s in steps] == [("up", False)] * 2
    assert [s["requests"] for s in steps] == [[ANY, ANY]] * 2


@pytest.mark.parametrize(
    ("support", "way"), [({"schema", "tools"}, "schema"), ({"tools"}, "tools"), (set(), "text")]
)
def test_the_probe_finds_the_best_way_a_server_honours(
    support: set[str], way: str, tmp_path: Path
) -> None:
    """Schema first, then a tool, then words; what was found is in the records."""

    def answer(body: Body) -> str:
        words = '{"reasoning": "r", "action": "alpha"}'
        return words if "alphabet" in json.dumps(body) else '{"action": "left"}'

    with chat_server(answer) as server:
        server.support = support
        _play(_config(server, tmp_path, episodes=1, max_steps=1))
    assert json.loads((tmp_path / "llm" / "probe.json").read_text())["way"] == way
    assert _record(tmp_path)[0]["action_name"] == "left"


def test_records_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """Half a line at the end is cut off; the lines before it are read, and new ones follow."""
    records = RunRecords(tmp_path)
    records.add_reply("a", Reply("one"))
    records.close()
    with (tmp_path / "llm" / "replies.jsonl").open("ab") as file:
        file.write(b'{"request": "b", "te')
    again = RunRecords(tmp_path)
    again.add_reply("c", Reply("three"))
    again.close()
    final = RunRecords(tmp_path)
    final.close()
    assert set(final.replies) == {"a", "c"}
