"""A language model's run under a real daemon: its key, its thoughts, and kills of every kind."""

import json
import os
import signal
from pathlib import Path

from support.chat_server import ChatServer, chat_server
from support.trainer import Trainer, until

from llm_worker.play.records import RunRecords
from mosaic.config import build
from mosaic.config.model import Parameters, TrainRunConfig
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
    """Daemon and worker are killed in mid-episode; the continued run ends with the same record."""
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
        os.kill(_worker(run_id), signal.SIGKILL)
        server.hold_after = None
        trainer.start()
        assert trainer.ended(run_id).outcome in ("failed", "lost")
        base = trainer.client.get(run_id)
        before = build.read_config(trainer.client.config(run_id))
        again = build.resume(before, base, parameters={"api_key": CANARY})
        last = trainer.client.submit(again, parent_run_id=run_id).run_id
        assert trainer.ended(last).outcome == "completed"
        paid = server.answered.total()
    assert _record(trainer, last) == _record(trainer, whole)
    # Twelve steps; the request that was in flight when the worker died may be the thirteenth.
    assert paid <= 13
    assert len(fetch_episode(trainer.client, last, 0)) == 12


def _worker(run_id: str) -> int:
    """The process that plays: the one whose command line names the worker's module."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if b"llm_worker.cli" in words and f"MOSAIC_RUN_ID={run_id}".encode() in environment:
            return int(entry)
    raise AssertionError("no worker runs")
