"""C rows of the fault matrix for one more machine; what it takes away it gives back."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import harness
from support.box import Box, MakeTrainer, box_at
from support.trainer import until

from mosaic.records import Outcome, RunRecord
from mosaic.runs.metrics import MetricReader
from mosaic.system.processes import BOOT_ID_VARIABLE, marked_processes

pytestmark = pytest.mark.prove
STEPS = 60_000


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


def _config(site: str, **fields: object) -> dict[str, object]:
    own = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 3, "total_timesteps": STEPS, **fields}
    worker = {"type": "cleanrl", "config": own}
    return {"artifacts": {}, "site": site, "metadata": {"worker": worker}}


def _equal(box: Box, one: RunRecord, other: RunRecord) -> None:
    states = [harness.newest_state(box.lab.directory(run.run_id).path) for run in (one, other)]
    for part in ("policy", "objects", "random"):
        assert harness.equal(states[0][part], states[1][part]), part
    curves = [
        MetricReader(box.lab.directory(run.run_id).path).read("charts/episodic_return")
        for run in (one, other)
    ]
    for field in ("step", "value"):
        assert list(curves[0][field]) == list(curves[1][field]), field


def test_c24_a_run_whose_machine_restarts_equals_the_undisturbed_one(box: Box, boot: Path) -> None:
    """Agent, supervisor and worker die with the machine; it continues in the same run."""
    lab = box.lab
    run_id = lab.client.submit(_config(box.site)).run_id
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
    _equal(box, restarted, lab.ended(lab.client.submit(_config("local")).run_id))
    until(lambda: box.is_clean(run_id), "nothing is left there")


def test_c25_every_part_is_killed_once_and_nothing_is_lost(box: Box) -> None:
    """Agent, connection and daemon die while it trains; weights and curve do not show it."""
    lab = box.lab
    run_id = lab.client.submit(_config(box.site)).run_id
    until(lambda: lab.client.get(run_id).progress.step > 5_000, "it trains")
    for pid in box.agents(run_id):
        os.kill(pid, signal.SIGKILL)
    for pid in box.sshd.clients():
        os.kill(pid, signal.SIGKILL)
    lab.kill()
    box.start()
    disturbed = lab.ended(run_id)
    assert (disturbed.outcome, disturbed.attempt) == (Outcome.COMPLETED, 1)
    _equal(box, disturbed, lab.ended(lab.client.submit(_config("local")).run_id))


def test_a_run_here_is_continued_there(box: Box) -> None:
    """The checkpoint of another run travels along; `--resume` needs nothing else."""
    lab = box.lab
    first = lab.ended(lab.client.submit(_config("local", total_timesteps=8_000)).run_id)
    config = _config(box.site, total_timesteps=16_000)
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


def test_a_daemon_with_a_certificate_is_reached_from_there(plain_box: Box, tmp_path: Path) -> None:
    """Agent and worker speak TLS with the daemon's own certificate, through the same connection."""
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    certificate, key = tmp_path / "cert.pem", tmp_path / "cert.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", names,
         "-out", certificate, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    plain_box.lab.kill()
    plain_box.start("--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key))
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
