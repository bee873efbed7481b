"""C rows of the fault matrix for one more machine; what it takes away it gives back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.box import Box, MakeTrainer, box_at
from support.equal_runs import STROLLING, assert_equal, ppo_config
from support.trainer import until
from support.wire import Wire, certificate, wire

from mosaic.records import Outcome
from mosaic.runs.metrics import MetricReader
from mosaic.system.processes import BOOT_ID_VARIABLE, marked_processes

pytestmark = pytest.mark.prove


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """The file that names the boot of the other machine."""
    path = tmp_path / "boot"
    path.write_text("first")
    return path


@pytest.fixture
def box(tmp_path: Path, make_trainer: MakeTrainer, boot: Path) -> Iterator[Box]:
    """A machine that can be restarted."""
    lab = make_trainer(lost_after_s="5")
    yield from box_at(tmp_path, lab, {BOOT_ID_VARIABLE: str(boot)})


def test_c24_a_run_whose_machine_restarts_equals_the_undisturbed_one(box: Box, boot: Path) -> None:
    """Agent, supervisor and worker die with the machine; it continues in the same run."""
    lab = box.lab
    run_id = lab.client.submit(ppo_config(box.site, env_id=STROLLING)).run_id
    until(lambda: lab.client.get(run_id).progress.step > 10_000, "it trains")
    lab.client.checkpoint(run_id)
    until(lambda: lab.client.get(run_id).checkpoints, "it has saved")
    supervisor = int(lab.supervisor(run_id)["supervisor_pid"])
    for pid in (supervisor, *box.agents(run_id), *marked_processes(run_id)):
        os.kill(pid, signal.SIGKILL)
    boot.write_text("second")
    until(lambda: lab.client.get(run_id).attempt == 2, "it goes back to the queue")
    restarted = lab.ended(run_id)
    assert (restarted.outcome, restarted.attempt) == (Outcome.COMPLETED, 2)
    assert_equal(lab, restarted, lab.ended(lab.client.submit(ppo_config("local")).run_id))
    until(lambda: box.is_clean(run_id), "nothing is left there")


def test_c25_every_part_is_killed_once_and_nothing_is_lost(box: Box) -> None:
    """Agent, connection and daemon die while it trains; weights and curve do not show it."""
    lab = box.lab
    run_id = lab.client.submit(ppo_config(box.site, env_id=STROLLING)).run_id
    until(lambda: lab.client.get(run_id).progress.step > 5_000, "it trains")
    for pid in box.agents(run_id):
        os.kill(pid, signal.SIGKILL)
    for pid in box.sshd.clients():
        os.kill(pid, signal.SIGKILL)
    lab.kill()
    box.start()
    disturbed = lab.ended(run_id)
    assert (disturbed.outcome, disturbed.attempt) == (Outcome.COMPLETED, 1)
    assert_equal(lab, disturbed, lab.ended(lab.client.submit(ppo_config("local")).run_id))


def test_a_run_here_is_continued_there(box: Box) -> None:
    """The checkpoint of another run travels along; `--resume` needs nothing else."""
    lab = box.lab
    first = lab.ended(lab.client.submit(ppo_config("local", total_timesteps=8_000)).run_id)
    config = ppo_config(box.site, total_timesteps=16_000)
    extras = {"mode": "resume_training", "checkpoint_path": f"{lab.directory(first.run_id).path}"}
    config["metadata"]["worker"]["config"]["extras"] = extras  # type: ignore[index]
    second = lab.ended(lab.client.submit(config, parent_run_id=first.run_id).run_id)
    assert second.outcome is Outcome.COMPLETED
    curve = MetricReader(lab.directory(second.run_id).path).read("charts/episodic_return")
    assert curve["step"][0] > first.progress.step, "it does not begin again"


@pytest.fixture
def plain_box(tmp_path: Path, make_trainer: MakeTrainer) -> Iterator[Box]:
    """A machine as it is."""
    yield from box_at(tmp_path, make_trainer(lost_after_s="5"))


@pytest.fixture
def cable() -> Iterator[Wire]:
    """The network between the two machines."""
    with wire() as made:
        yield made


@pytest.fixture
def far_box(tmp_path: Path, make_trainer: MakeTrainer, cable: Wire) -> Iterator[Box]:
    """A machine behind the cable."""
    for box in box_at(tmp_path, make_trainer(lost_after_s="5"), wire=cable):
        yield box
        # While there is a cable: without it the goodbye of this end would never arrive.
        box.lab.kill()
        until(lambda: not box.doors(), "the connection has ended there too")  # noqa: B023


def test_c27_the_network_is_lost_and_the_run_ends_meanwhile(far_box: Box, cable: Wire) -> None:
    """It trains on alone, unseen and not lost; with the network back all it did is here."""
    lab = far_box.lab
    run_id = lab.client.submit(ppo_config(far_box.site, env_id=STROLLING)).run_id
    until(lambda: lab.client.get(run_id).progress.step > 2_000, "it trains")
    worker, doors = lab.client.get(run_id).pid, set(far_box.doors())
    cable.cut()
    until(lambda: not marked_processes(run_id), "it has ended, unheard")
    told = until(lambda: lab.client.get(run_id).reason, "it is shown as unreachable")
    assert told.startswith("unreachable since")
    assert lab.client.get(run_id).live
    cable.join()
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.attempt, ended.pid) == (Outcome.COMPLETED, 1, worker)
    assert_equal(lab, ended, lab.ended(lab.client.submit(ppo_config("local")).run_id))
    until(lambda: far_box.is_clean(run_id), "nothing is left there")
    until(lambda: not doors & set(far_box.doors()), "the lost connection has left nothing there")


def test_a_daemon_with_a_certificate_is_reached_from_there(plain_box: Box, tmp_path: Path) -> None:
    """Agent and worker speak TLS with the daemon's own certificate, through the same connection."""
    plain_box.lab.kill()
    plain_box.start(*certificate(tmp_path, "127.0.0.1"))
    run_id = plain_box.stepping()
    plain_box.lab.client.cancel(run_id)
    ended = plain_box.lab.ended(run_id)
    assert (ended.outcome, ended.exit_code) == (Outcome.CANCELLED, 143)


def test_c26_a_supervisor_that_vanishes_is_lost_and_said(box: Box) -> None:
    """Its machine lives and has no record of its end: lost, after the time that is allowed."""
    lab = box.lab
    run_id = box.stepping()
    supervisor = int(lab.supervisor(run_id)["supervisor_pid"])
    for pid in (supervisor, *marked_processes(run_id)):
        os.kill(pid, signal.SIGKILL)
    ended = lab.ended(run_id)
    assert ended.outcome is Outcome.LOST
    assert ended.reason is not None
    assert "its supervisor vanished" in ended.reason
    until(lambda: box.is_clean(run_id), "nothing is left there")


def test_c22_the_daemon_dies_between_placing_and_its_record(box: Box) -> None:
    """An agent of which no event tells is sent away; the run has one worker."""
    lab = box.lab
    lab.kill()
    box.start(MOSAIC_FAULT="after_place:kill")
    run_id = box.submit("steady")
    lab.wait_for_death()
    box.start()
    lab.wait_for(run_id, "EXEC")
    until(lambda: len(marked_processes(run_id)) == 1, "one worker")
    assert marked_processes(run_id) == [lab.client.get(run_id).pid]
    assert lab.kinds(run_id).count("placed") == 1
    lab.client.cancel(run_id)
    lab.ended(run_id)
