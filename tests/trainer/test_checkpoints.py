"""Checkpoints on request: asked for, answered, refused, and asked again after a crash."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.errors import InvalidTransitionError

MakeTrainer = Callable[..., Trainer]


def _answer(trainer: Trainer, run_id: str, after: int) -> str:
    def answer() -> str:
        kinds = [event.kind for event in trainer.client.events(run_id, after=after)]
        return next((kind for kind in kinds if kind.startswith("checkpoint_c")), "") or next(
            (kind for kind in kinds if kind == "checkpoint_refused"), ""
        )

    return str(until(answer, "the worker answers"))


def _command(trainer: Trainer, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mosaic.cli.main", *words],
        env={**os.environ, "MOSAIC_HOME": str(trainer.home.root)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_command_prints_the_file_that_was_written(trainer: Trainer) -> None:
    """`mosaic checkpoint RUN` waits for the file and names it with its step."""
    run_id = trainer.stepping("saves_on_request").run_id
    done = _command(trainer, "checkpoint", run_id[:12])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{run_id} checkpoints/asked.json at step 7"
    kinds = trainer.kinds(run_id)
    asked = kinds.index("checkpoint_requested")
    assert kinds[asked:] == ["checkpoint_requested", "checkpoint_saved", "checkpoint_confirmed"]
    assert trainer.client.get(run_id).state == "EXEC"


def test_a_refusal_is_recorded_and_told(trainer: Trainer) -> None:
    """A worker that cannot save says why; the run continues and the reason is kept."""
    run_id = trainer.stepping("saves_on_request", extras={"refuse": "the disk is full"}).run_id
    done = _command(trainer, "checkpoint", run_id)
    assert done.returncode != 0
    assert "the disk is full" in done.stderr
    refused = [e for e in trainer.client.events(run_id) if e.kind == "checkpoint_refused"]
    assert [event.data for event in refused] == [{"reason": "the disk is full"}]
    before = trainer.steps(run_id)
    until(lambda: trainer.steps(run_id) > before, "the run continues")


def test_a_worker_that_never_answers_is_waited_for_a_bounded_time(trainer: Trainer) -> None:
    """The command ends by itself and says where to look."""
    run_id = trainer.stepping("saves_on_request", extras={"mute": True}).run_id
    done = _command(trainer, "checkpoint", run_id, "--timeout", "0.5")
    assert done.returncode != 0
    assert "has not answered within 0.5 s" in done.stderr
    assert f"mosaic show {run_id} --events" in done.stderr


def test_whoever_cannot_save_is_refused_with_a_reason(make_trainer: MakeTrainer) -> None:
    """The sentence says what stands in the way: state, worker, end, or a signal."""
    trainer = make_trainer(cpu_slots="1").start()
    plain = trainer.stepping("steady").run_id
    queued = trainer.submit("steady")
    refusals = {plain: "worker (rogue, mode train) does not support that", queued: "is INIT"}
    for run_id, text in refusals.items():
        with pytest.raises(InvalidTransitionError, match=re.escape(text)):
            trainer.client.checkpoint(run_id)
    trainer.client.cancel(queued)
    trainer.client.cancel(plain)
    trainer.ended(plain)
    with pytest.raises(InvalidTransitionError, match=r"has ended \(cancelled\)"):
        trainer.client.checkpoint(plain)
    stopped = trainer.stepping("saves_on_request").run_id
    trainer.client.pause(stopped)
    with pytest.raises(InvalidTransitionError, match=f"mosaic resume {stopped}"):
        trainer.client.checkpoint(stopped)
    assert "checkpoint_requested" not in trainer.kinds(stopped)


def test_a_request_survives_the_daemon(trainer: Trainer) -> None:
    """A daemon that dies between question and answer: the next one asks again."""
    run_id = trainer.stepping("saves_on_request").run_id
    worker = trainer.supervisor(run_id)["pid"]
    os.kill(worker, signal.SIGSTOP)
    version = trainer.client.checkpoint(run_id).version
    trainer.kill()
    os.kill(worker, signal.SIGCONT)
    trainer.start()
    assert _answer(trainer, run_id, version) == "checkpoint_confirmed"
