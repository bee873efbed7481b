"""A language model's run under a real daemon: its key, its thoughts, and kills of every kind."""

import json
import os
import random
import signal
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from support.chat_server import ChatServer, chat_server
from support.trainer import Trainer, until

from llm_worker.play.records import RunRecords
from mosaic.config import build
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.records import EpisodeRecord
from mosaic.telemetry.replay import fetch_episode

CANARY = "CANARY-llm-9a2e-do-not-show"
WORKER = build.Worker("llm", "llm_worker.cli")


def _config(server: ChatServer, **settings: object) -> TrainRunConfig:
    given: Parameters = json.loads(
        json.dumps(
            {
                "model": f"{server.url}#m",
                "api_key": CANARY,
                "answer": "schema",
                "episodes": 1,
                "max_steps": 12,
                "frames": False,
                **settings,
            }
        )
    )
    return build.train(WORKER, "llm", env_id="CliffWalking-v1", seed=5, parameters=given)


def _files_with(root: Path, needle: bytes) -> set[Path]:
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {path for path in files if needle in path.read_bytes()}


def _record(trainer: Trainer, run_id: str) -> list[dict[str, object]]:
    records = RunRecords(trainer.directory(run_id).path)
    records.close()
    return [dict(step.comparable()) for step in records.done]


def test_the_key_reaches_the_server_and_the_thoughts_reach_the_viewer(trainer: Trainer) -> None:
    """The key is shown to the server and kept in the store; each step says what was thought."""
    with chat_server(key=CANARY) as server:
        run_id = trainer.client.submit(_config(server)).run_id
        record = trainer.ended(run_id)
        assert record.outcome == "completed"
        assert server.seen_keys == {CANARY}
    assert _files_with(trainer.home.root, CANARY.encode()) == {
        trainer.home.secrets / f"{run_id}.json"
    }
    steps = fetch_episode(trainer.client, run_id, 0)
    assert len(steps) == 12
    assert steps[0].observation.startswith("You are at row 3, column 0")
    thoughts = steps[0].info["llm"]
    assert thoughts["reasoning"] == "because"
    assert thoughts["tokens_in"] == 100
    summary = trainer.client.read_file(run_id, "llm/summary.json").document()
    assert (summary["episodes"], summary["requests"]) == (1, 12)


def test_kills_of_daemon_and_worker_change_nothing_in_the_record(trainer: Trainer) -> None:
    """Daemon and worker are killed in mid-episode; the same run ends with the same record."""
    with chat_server() as server:
        whole = trainer.client.submit(_config(server)).run_id
        trainer.ended(whole)
        server.answered.clear()
        server.hold_after = 3
        run_id = trainer.client.submit(_config(server)).run_id
        until(server.holds, "the run plays")
        trainer.kill()
        server.hold_after = 7
        until(server.holds, "the run plays on without a daemon")
        killed = _worker(run_id)
        os.kill(killed, signal.SIGKILL)
        server.hold_after = None
        trainer.start()
        record = trainer.ended(run_id)
        assert record.outcome == "completed"
        paid = server.answered.total()
    assert _record(trainer, run_id) == _record(trainer, whole)
    # Twelve steps; the request that was in flight when the worker died may be the thirteenth.
    assert paid <= 13
    assert trainer.kinds(run_id).count("worker_restarted") == 1
    assert record.pid != killed
    # What the daemon was told before the kill it is not told again.
    steps = fetch_episode(trainer.client, run_id, 0)
    assert [step.step for step in steps] == list(range(12))
    assert len([*_episodes(trainer, run_id)]) == 1


def test_a_worker_that_was_killed_is_cancelled_like_any_other(trainer: Trainer) -> None:
    """The cancellation reaches the worker that was started again, which then stays dead."""
    with chat_server() as server:
        server.hold_after = 3
        run_id = trainer.client.submit(_config(server)).run_id
        until(server.holds, "the run plays")
        first = _worker(run_id)
        os.kill(first, signal.SIGKILL)
        until(lambda: trainer.client.get(run_id).pid != first, "another worker plays")
        trainer.client.cancel(run_id)
        assert trainer.ended(run_id).outcome == "cancelled"
        server.hold_after = None
    assert trainer.kinds(run_id).count("worker_restarted") == 1


def test_a_spent_budget_is_how_the_run_ended(trainer: Trainer) -> None:
    """The run's outcome is `budget`, with what was spent; what was played is kept."""
    with chat_server() as server:
        config = _config(server, budget_tokens=700, max_tokens=10)
        record = trainer.ended(trainer.client.submit(config).run_id)
    assert record.outcome == "budget"
    assert "of 700 tokens are spent" in record.reason
    assert _record(trainer, record.run_id)


KILLS = 30


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_thirty_runs_with_kills_at_random_steps_end_alike(trainer: Trainer) -> None:
    """Worker, daemon and model server die at random steps; each run ends like the undisturbed one.

    The embedded model plays BabyAI. Each run loses one of the three, every fifth all of them, and
    every one is completed by itself, with no request asked twice.
    """
    chance = random.Random(11)
    config = build.train(
        WORKER,
        "llm",
        env_id="BabyAI-PickupLoc-v0",
        seed=1,
        parameters={"episodes": 4, "frames": False},
    )
    whole = trainer.client.submit(config).run_id
    trainer.ended(whole)
    wanted = _record(trainer, whole)
    killed: Counter[str] = Counter()
    for number in range(KILLS):
        victims = ["worker", "server", "daemon"]
        chance.shuffle(victims)
        run_id = trainer.client.submit(config).run_id
        for victim in victims if number % 5 == 0 else victims[:1]:
            step = chance.randrange(1, len(wanted) - 4)
            path = trainer.directory(run_id).path / "llm" / "steps.jsonl"
            until(partial(_has_lines, path, step), f"{run_id} takes {step} steps")
            killed[victim] += _kill(trainer, run_id, victim)
        assert trainer.ended(run_id).outcome == "completed"
        assert _record(trainer, run_id) == wanted
        assert _asked_twice(trainer, run_id) == {}
        episodes = [episode.episode for episode in _episodes(trainer, run_id)]
        assert episodes == [0, 1, 2, 3]
    assert min(killed[victim] for victim in ("worker", "server", "daemon")) > 3


def _kill(trainer: Trainer, run_id: str, victim: str) -> bool:
    """Kill one of a run's processes; False when the run was quicker."""
    if victim == "daemon":
        trainer.kill()
        trainer.start()
        return True
    module = b"llm_worker.cli" if victim == "worker" else b"llm_worker.embedded.serve"
    try:
        os.kill(_process(run_id, module), signal.SIGKILL)
    except (ProcessLookupError, AssertionError):
        return False
    return True


def _asked_twice(trainer: Trainer, run_id: str) -> dict[str, int]:
    """Requests with more than one reply in the records, which hold each reply that ever came."""
    lines = (trainer.directory(run_id).path / "llm" / "replies.jsonl").read_text().splitlines()
    counts = Counter(json.loads(line)["request"] for line in lines)
    return {request: count for request, count in counts.items() if count > 1}


def _episodes(trainer: Trainer, run_id: str) -> list[EpisodeRecord]:
    return [one for batch in trainer.client.episodes(run_id) for one in batch.episodes]


def _has_lines(path: Path, count: int) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") >= count


def _worker(run_id: str) -> int:
    return _process(run_id, b"llm_worker.cli")


def _process(run_id: str, module: bytes) -> int:
    """A process of a run by the module in its command line."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if module in words and f"MOSAIC_RUN_ID={run_id}".encode() in environment:
            return int(entry)
    raise AssertionError(f"no process of {module.decode()} runs")
