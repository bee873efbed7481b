"""Faults in the middle of training: nothing that was saved is lost, and nothing hangs."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import torch
from support import harness
from support.patience import PATIENCE_S
from support.upstream import write_script

from mosaic.fastlane import FrameReader
from mosaic.runs.ids import new_run_id
from mosaic.runs.metrics import MetricReader

LONG = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "100000000")


def test_cancelling_saves_a_checkpoint_and_says_so(tmp_path: Path) -> None:
    """SIGTERM to the group: checkpoint, `terminated`, exit status 143, manifest written."""
    worker = harness.start(tmp_path / "run", *LONG)
    step = worker.wait_for("metrics")["step"]
    worker.stop()
    assert worker.wait() == 143
    assert worker.events("run_failed")[0]["reason"] == "terminated"
    assert harness.newest_state(tmp_path / "run")["step"] >= step
    assert [event["kind"] for event in worker.events("checkpoint_saved")] == ["policy", "full"]
    assert (tmp_path / "run" / "analytics.json").exists()


def test_killing_the_training_process_is_told_with_its_signal(tmp_path: Path) -> None:
    """The worker outlives it and says what happened."""
    worker = harness.start(tmp_path / "run", *LONG)
    worker.wait_for("metrics")
    os.kill(worker.training_pid(), signal.SIGKILL)
    assert worker.wait() == 128 + signal.SIGKILL
    assert "signal 9 (SIGKILL)" in worker.events("run_failed")[0]["reason"]


def test_killing_the_worker_ends_the_training_process_with_a_checkpoint(tmp_path: Path) -> None:
    """A training process whose worker is gone saves and ends by itself."""
    worker = harness.start(tmp_path / "run", *LONG)
    worker.wait_for("metrics")
    training = worker.training_pid()
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{training}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{training}").exists()
    assert harness.newest_state(tmp_path / "run")["step"] > 0


def test_d06_kill_inside_a_save_leaves_the_newest_valid_one(tmp_path: Path) -> None:
    """kill -9 in each of the writes a checkpoint consists of, through the worker."""
    run_dir = tmp_path / "run"
    first = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    harness.run(run_dir, *first)
    for number in (1, 4, 5):
        again = ("--resume", str(run_dir), "--total-timesteps", "1024")
        worker = harness.start(run_dir, *again, fault=f"kill_at_fsync:{number}")
        assert worker.wait() == 128 + signal.SIGKILL
        assert harness.newest_state(run_dir)["step"] == 512
    harness.run(run_dir, "--resume", str(run_dir), "--total-timesteps", "1024")
    assert harness.newest_state(run_dir)["step"] == 1024


def test_d06_numbers_are_on_disk_before_the_checkpoint_that_covers_them(tmp_path: Path) -> None:
    """A run that is killed continues from a checkpoint; the curve until there has no hole."""
    run_dir = tmp_path / "run"
    short = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    # In the first write of its only checkpoint, long before its numbers are a second old.
    worker = harness.start(run_dir, *short, fault="kill_at_fsync:1")
    assert worker.wait() == 128 + signal.SIGKILL
    curves = MetricReader(run_dir)
    assert list(curves.read("losses/value_loss")["step"]) == [512]
    assert len(curves.read("charts/episodic_return")["step"]) > 5


def test_d06_a_hundred_kills_at_random_moments_of_saving(tmp_path: Path) -> None:
    """Whenever the kill comes, the newest checkpoint with a checksum loads and is whole."""
    from cleanrl_worker.running import checkpoint_files, checkpoints

    generator = random.Random(6)
    began = time.monotonic()
    _save(tmp_path, 1)
    longest = max(0.03, 3 * (time.monotonic() - began))
    kills, step = 0, 0
    # On a busy machine a child may die before it has saved anything; then more are killed.
    while kills < 100 or step <= 10:
        pid = os.fork()
        if not pid:
            _save_forever(tmp_path)
        time.sleep(generator.uniform(0.001, longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        kills += 1
        path, _ = checkpoint_files.find(tmp_path)
        state = checkpoints.load(path)
        step = state["step"]
        assert bool((state["policy"] == step).all())


def _save_forever(folder: Path) -> None:
    from cleanrl_worker.running import checkpoint_files
    from mosaic.config.keeping import KeepPolicy

    step = max((checkpoint_files.step_of(path) for path in folder.glob("step-*.state")), default=0)
    while True:
        step += 1
        _save(folder, step)
        checkpoint_files.prune(folder, KeepPolicy(last=3))


def _save(folder: Path, step: int) -> None:
    from cleanrl_worker.running import checkpoints

    content = {"step": step, "policy": torch.full((40_000,), float(step))}
    checkpoints.save(folder, step, content, content)


def test_saving_that_takes_long_happens_less_often_and_is_said(tmp_path: Path) -> None:
    """Saving on a schedule takes at most its share of time; asked to stop, a run saves at once."""
    often = ("--", "--checkpoint-interval-s", "0.2")
    worker = harness.start(tmp_path / "run", *LONG, *often, fault="slow_fsync:100")
    note = worker.wait_for("note")
    assert "a checkpoint takes" in note["text"]
    assert "not every 0.2 s, so that saving takes at most 2% of the time" in note["text"]
    worker.wait_for("metrics", count=3)
    worker.stop()
    assert worker.wait() == 143
    full = [event["step"] for event in worker.events("checkpoint_saved") if event["kind"] == "full"]
    assert len(full) == 2, "one on schedule, one for the stop"
    assert harness.newest_state(tmp_path / "run")["step"] == full[-1]
    assert len(worker.events("note")) == 1


def test_d01_a_disk_that_is_full_costs_no_earlier_checkpoint(tmp_path: Path) -> None:
    """The run fails with the reason; what was saved before is intact and can be continued."""
    run_dir = tmp_path / "run"
    harness.run(run_dir, "--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    before = harness.newest_state(run_dir)
    again = ("--resume", str(run_dir), "--total-timesteps", "1024")
    worker = harness.start(run_dir, *again, fault="limit_file_size:20000")
    assert worker.wait() == 1
    assert "File too large" in worker.events("run_failed")[0]["reason"]
    assert harness.equal(harness.newest_state(run_dir), before)
    assert not list(run_dir.glob("checkpoints/.*"))
    harness.run(run_dir, *again)


def test_f17_the_last_checkpoint_waits_for_room(tmp_path: Path) -> None:
    """A disk that is full when training ends delays the end; nothing of the training is lost."""
    run_dir = tmp_path / "run"
    training = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    worker = harness.start(run_dir, *training, fault="full_disk:3")
    assert worker.wait() == 0
    notes = [event["text"] for event in worker.events("note")]
    assert [text for text in notes if "waits for room on the disk" in text]
    assert harness.newest_state(run_dir)["step"] == 512


def test_f17_a_run_that_waits_for_room_can_be_stopped(tmp_path: Path) -> None:
    """Told to stop, a run no longer waits for the disk and ends as one that was stopped."""
    run_dir = tmp_path / "run"
    training = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    worker = harness.start(run_dir, *training, fault="full_disk:3600")
    worker.wait_for("note")
    worker.stop()
    assert worker.wait() == 143
    assert worker.events("run_failed")[0]["reason"] == "terminated"


@pytest.mark.parametrize(
    ("env_id", "reason"),
    [
        ("Raising-v0", "RuntimeError: the simulator lost its connection"),
        ("NotANumber-v0", "not a finite number"),
    ],
)
def test_an_environment_that_goes_wrong_fails_its_run_with_the_reason(
    tmp_path: Path, env_id: str, reason: str
) -> None:
    """An exception in `step`, a reward that is no number: one sentence, exit status 1."""
    arguments = ("--algo", "ppo", "--env-id", f"support.odd_environments:{env_id}")
    worker = harness.start(tmp_path / "run", *arguments, "--total-timesteps", "4096")
    assert worker.wait() == 1
    assert reason in worker.events("run_failed")[0]["reason"]
    assert (tmp_path / "run" / "analytics.json").exists()


def test_f16_a_training_process_that_spins_says_where(tmp_path: Path) -> None:
    """A loop without end in an environment is named by file and function, and can be stopped."""
    arguments = ("--algo", "ppo", "--env-id", "support.odd_environments:Spinning-v0")
    worker = harness.start(tmp_path / "run", *arguments, "--total-timesteps", "100000")
    beats = 1
    while not (where := worker.wait_for("heartbeat", count=beats).get("where", "")):
        beats += 1
    assert "odd_environments.py" in where
    assert "step" in where
    worker.stop()
    assert worker.wait() == 143
    assert "no safe point was reached" in worker.said()


def test_an_environment_that_cannot_render_trains_all_the_same(tmp_path: Path) -> None:
    """Frames are a courtesy: viewer and log say why there are none, and training continues."""
    run_id = new_run_id()
    arguments = ("--algo", "ppo", "--env-id", "support.odd_environments:Invisible-v0")
    steps = ("--total-timesteps", "100000000")
    worker = harness.start(tmp_path / "run", *arguments, *steps, MOSAIC_RUN_ID=run_id)
    worker.wait_for("metrics")
    with FrameReader(run_id, run_dir=tmp_path / "run") as viewer:
        while not viewer.notice:
            assert viewer.wait(0.1) is None
            assert worker.process.is_alive(), worker.said()
        assert "Invisible-v0 cannot be shown: it has no render mode 'rgb_array'" in viewer.notice
    told = worker.events("metrics")
    assert worker.wait_for("metrics", len(told) + 1)["step"] > told[-1]["step"]
    worker.stop()
    assert worker.wait() == 143
    assert worker.said().count("cannot be shown") == 1


def test_n07_a_flood_of_events_is_held_back_and_counted(tmp_path: Path) -> None:
    """Notes beyond the rate are counted; checkpoints, stages and heartbeats all come through."""
    script = """
import json, os, socket, time
line = socket.socket(fileno=os.dup(int(os.environ["CLEANRL_BRIDGE_FD"])))
def say(**event):
    line.sendall(json.dumps(event).encode() + b"\\n")
for number in range(60000):
    say(event="note", text="flood")
    say(event="metrics", step=number, total=60000, values={"sps": 1.0})
    if number % 10000 == 0:
        saved = f"checkpoints/step-{number}.state"
        say(event="checkpoint_saved", path=saved, step=number, sha256="0" * 64, kind="full")
        line.sendall(b"garbage\\n[1]\\n")
"""
    home = write_script(tmp_path / "upstream", "flood", body=script)
    arguments = ("--algo", "cleanrl:flood", "--env-id", "CartPole-v1", "--total-timesteps", "60000")
    worker = harness.run(tmp_path / "run", *arguments, CLEANRL_HOME=str(home))
    assert [event["step"] for event in worker.events("checkpoint_saved")] == list(
        range(0, 60000, 10000)
    )
    notes = worker.events("note")
    told = sum(event.get("dropped", 1) for event in notes)
    assert len(notes) < 3000
    assert told == 60000
    assert worker.events("metrics")[-1]["step"] == 59999
    assert worker.events("heartbeat")


def test_n11_tracking_that_cannot_be_reached_harms_nothing(tmp_path: Path) -> None:
    """A host that accepts and never answers: training ends as without it, data stays local."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_accept_and_ignore, args=(server,), daemon=True).start()
        worker = harness.run(
            tmp_path / "run",
            *("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "2048"),
            "--track-wandb",
            WANDB_BASE_URL=f"http://127.0.0.1:{server.getsockname()[1]}",
            WANDB_API_KEY="0" * 40,
            WANDB_INIT_TIMEOUT="1",
            WANDB_FINISH_TIMEOUT="1",
        )
    assert any(event.get("wandb") == "offline" for event in worker.events("note"))
    assert harness.newest_state(tmp_path / "run")["step"] == 2048
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
    plain = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "2048")
    harness.run(tmp_path / "plain", *plain)
    tracked, alone = (harness.newest_state(tmp_path / name) for name in ("run", "plain"))
    assert harness.equal(tracked["policy"], alone["policy"])


def _accept_and_ignore(server: socket.socket) -> None:
    kept = []
    while True:
        try:
            kept.append(server.accept())
        except OSError:
            return
