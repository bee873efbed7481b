"""A run moves to another machine by its ssh address, and keeps everything it has here."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.box import Box, MakeTrainer, box_at
from support.trainer import Trainer, trainers, until

from mosaic.fastlane.frame import FrameMetrics
from mosaic.fastlane.writer import LaneWriter
from mosaic.records import Outcome
from mosaic.system.processes import marked_processes
from mosaic.trainer.launch import hardware

SETTINGS = {"lost_after_s": "5"}


@pytest.fixture
def box(tmp_path: Path, make_trainer: MakeTrainer) -> Iterator[Box]:
    """A machine of its own, for a test that breaks something."""
    yield from box_at(tmp_path, make_trainer(**SETTINGS))


@pytest.fixture(scope="module")
def shared_box(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Box]:
    """One machine for all tests that leave it as it was."""
    root = tmp_path_factory.mktemp("box")
    with trainers(root, python_path) as make:
        yield from box_at(root, make(**SETTINGS))


def test_a_run_begins_there_and_completes(shared_box: Box) -> None:
    """States, log, numbers and files are those of a run here; nothing stays on the machine."""
    lab = shared_box.lab
    run_id = shared_box.submit("thorough")
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.reason) == (Outcome.COMPLETED, None), ended
    assert ended.site == shared_box.site
    assert ended.host
    assert ended.metrics["episodic_return"] == 5.0
    directory = lab.directory(run_id)
    assert "plain output" in directory.stdout.read_text()
    assert "a complaint" in directory.stderr.read_text()
    (saved,) = ended.checkpoints
    assert (directory.path / saved.path).read_bytes() == b'{"weights": [1, 2, 3]}'
    kinds = lab.kinds(run_id)
    assert kinds[:3] == ["submitted", "slots_reserved", "placed"]
    assert kinds[3:6] == ["spawned", "worker_registered", "run_started"]
    assert lab.free_slots() == 2, "the slots of this machine stay free"
    until(lambda: shared_box.is_clean(run_id), "nothing is left there")
    assert not list(lab.home.launches.iterdir())


def test_a_run_there_can_be_paused_resumed_and_cancelled(shared_box: Box) -> None:
    """Signals travel to the other machine, and the end travels back with its exit code."""
    lab = shared_box.lab
    run_id = shared_box.stepping()
    lab.client.pause(run_id)
    lab.wait_for(run_id, "PAUSE")
    lab.client.resume(run_id)
    before = lab.steps(run_id)
    until(lambda: lab.steps(run_id) > before, "it steps again")
    lab.client.cancel(run_id)
    ended = lab.ended(run_id)
    assert ended.outcome is Outcome.CANCELLED
    assert ended.exit_code == 143
    until(lambda: shared_box.is_clean(run_id), "nothing is left there")


def test_a_checkpoint_can_be_asked_for(shared_box: Box) -> None:
    """The worker there hears the question, and what it saves is here when it has answered."""
    lab = shared_box.lab
    run_id = shared_box.stepping("saves_on_request")
    lab.client.checkpoint(run_id)
    saved = until(lambda: lab.client.get(run_id).checkpoints, "it has saved")
    assert (lab.directory(run_id).path / saved[-1].path).exists()
    lab.client.cancel(run_id)
    lab.ended(run_id)


def test_live_frames_come_from_there(shared_box: Box) -> None:
    """A picture in the other machine's memory is seen here; no one watches, no one renders."""
    lab = shared_box.lab
    run_id = shared_box.stepping()
    lane = LaneWriter(run_id)
    stop = threading.Event()

    def render() -> None:
        # As a run does: pictures are made while someone looks.
        while not stop.wait(0.02):
            if lane.watched():
                lane.publish(np.full((40, 60, 3), 200, np.uint8), FrameMetrics(last_reward=7.0))

    rendering = threading.Thread(target=render)
    rendering.start()
    try:
        assert not lane.watched()
        frames = lab.client.frames(run_id, max_dim=30)
        first = next(frames)
        assert (first.width, first.height, first.last_reward) == (60, 40, 7.0)
        assert next(frames).sequence > first.sequence
        frames.close()
        until(lambda: not lane.watched(), "the run hears that no one watches")
    finally:
        stop.set()
        rendering.join()
        lane.close()
    lab.client.cancel(run_id)
    lab.ended(run_id)


def test_no_secret_is_left_on_either_disk(shared_box: Box) -> None:
    """A key reaches the worker there, and no file of the machine or of the daemon's launches."""
    secret = "hunter2-hunter2-hunter2"
    lab = shared_box.lab
    run_id = shared_box.stepping(environment={"MY_API_KEY": secret})
    worker = lab.client.get(run_id).pid
    assert f"MY_API_KEY={secret}".encode() in Path(f"/proc/{worker}/environ").read_bytes()
    until(lambda: not list(lab.home.launches.iterdir()), "the launch is gone")
    there = [path for path in shared_box.home.rglob("*") if path.is_file()]
    assert not [path for path in there if secret.encode() in path.read_bytes()]
    lab.client.cancel(run_id)
    lab.ended(run_id)


def test_a_machine_that_cannot_be_reached_is_explained(shared_box: Box) -> None:
    """The run waits, says why in a sentence with the remedy, and can be cancelled."""
    lab = shared_box.lab
    # Bound and not listening: nothing answers there, and no other program can.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        run_id = lab.submit("short", site=f"ssh://nobody@127.0.0.1:{closed.getsockname()[1]}")
        _refused(lab, run_id)


def _refused(lab: Trainer, run_id: str) -> None:

    def told() -> str:
        reason = lab.client.get(run_id).wait_reason or ""
        return reason if "has ended" in reason else ""

    assert "try: ssh" in until(told, "the reason is shown")
    lab.client.cancel(run_id)
    assert lab.ended(run_id).outcome is Outcome.CANCELLED


def test_runs_share_the_slots_of_the_machine_there(shared_box: Box) -> None:
    """What does not fit waits in our queue, and says who holds the slots."""
    lab = shared_box.lab
    run_id = shared_box.stepping(resources={"cpus": {"requested": hardware.cpu_count()}})
    second = shared_box.submit("short")
    why = until(lambda: lab.client.get(second).wait_reason, "it waits")
    assert why.startswith("waiting for 1 CPU slot; held by")
    lab.client.cancel(run_id)
    lab.ended(run_id)
    assert lab.ended(second).outcome is Outcome.COMPLETED


def test_c20_the_daemon_and_the_agent_are_killed(box: Box) -> None:
    """The worker does not notice; a new daemon and a new agent find it, and no line is lost."""
    lab = box.lab
    run_id = box.stepping()
    worker = lab.client.get(run_id).pid
    lab.kill()
    for pid in box.agents(run_id):
        os.kill(pid, signal.SIGKILL)
    box.start()
    until(lambda: "adopted" in lab.kinds(run_id), "it was adopted")
    before = lab.steps(run_id)
    until(lambda: lab.steps(run_id) > before, "its steps arrive again")
    assert marked_processes(run_id) == [worker]
    lab.client.cancel(run_id)
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.exit_code, ended.attempt) == (Outcome.CANCELLED, 143, 1)
    lines = [json.loads(line) for line in lab.directory(run_id).stdout.read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    until(lambda: box.is_clean(run_id), "nothing is left there")


def test_c21_the_ssh_connection_breaks(box: Box) -> None:
    """A broken connection is made again; the run goes on in the meantime and is heard again."""
    lab = box.lab
    run_id = box.stepping()
    for pid in box.sshd.clients():
        os.kill(pid, signal.SIGKILL)
    before = lab.steps(run_id)
    until(lambda: lab.steps(run_id) > before, "its steps arrive again")
    lab.client.cancel(run_id)
    assert lab.ended(run_id).outcome is Outcome.CANCELLED
    until(lambda: box.is_clean(run_id), "nothing is left there")


def test_c23_the_worker_is_killed(shared_box: Box) -> None:
    """Its end is told as what it was, and what it had saved is here."""
    lab = shared_box.lab
    run_id = shared_box.stepping()
    os.kill(lab.client.get(run_id).pid, signal.SIGKILL)
    ended = lab.ended(run_id)
    assert ended.outcome is Outcome.FAILED
    assert (lab.directory(run_id).path / ended.checkpoints[-1].path).exists()
    until(lambda: shared_box.is_clean(run_id), "nothing is left there")
