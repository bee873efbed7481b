"""A run moves to SLURM by one word, and keeps its states, log, pause, cancel and checkpoints."""

import json
import time
from pathlib import Path

from support.slurm import SlurmCluster
from support.trainer import Trainer, until

from mosaic.records import Outcome


def test_a_run_begins_on_a_node_and_completes(slurm: SlurmCluster, lab: Trainer) -> None:
    """States, log and numbers are those of a run of this machine; the site is shown."""
    run_id = lab.submit("thorough")
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.reason) == (Outcome.COMPLETED, None)
    assert (ended.site, ended.host) == ("slurm:debug", "n1")
    assert ended.job.isdigit()
    assert ended.metrics["episodic_return"] == 5.0
    assert "plain output" in lab.directory(run_id).stdout.read_text()
    kinds = lab.kinds(run_id)
    assert kinds[:3] == ["submitted", "slots_reserved", "placed"]
    assert kinds[3:6] == ["spawned", "worker_registered", "run_started"]
    # Its node is SLURM's to give; the slots of this machine stay free.
    assert lab.free_slots() == 2
    assert not list(lab.home.launches.iterdir())


def test_a_running_job_can_be_paused_resumed_and_cancelled(
    slurm: SlurmCluster, lab: Trainer
) -> None:
    """Signals reach a worker on a node, and the job ends with the run."""
    record = lab.stepping()
    lab.client.pause(record.run_id)
    lab.wait_for(record.run_id, "PAUSE")
    until(lambda: _stands_still(lab, record.run_id), "the worker stands still")
    lab.client.resume(record.run_id)
    before = lab.steps(record.run_id)
    until(lambda: lab.steps(record.run_id) > before, "it steps again")
    lab.client.cancel(record.run_id)
    ended = lab.ended(record.run_id)
    assert ended.outcome is Outcome.CANCELLED
    assert ended.exit_code == 143
    until(lambda: not slurm.command("squeue", "-h"), "its job is gone")


def _stands_still(lab: Trainer, run_id: str) -> bool:
    before = lab.steps(run_id)
    time.sleep(0.5)
    return lab.steps(run_id) == before


def test_a_waiting_job_says_why_and_can_be_cancelled(slurm: SlurmCluster, lab: Trainer) -> None:
    """The wait reason is SLURM's, in plain words; a cancelled job never begins."""
    slurm.command("scontrol", "update", "partitionname=debug", "state=down")
    run_id = lab.submit("steady")
    why = until(lambda: _told(lab, run_id, "partition"), "the reason is shown")
    assert why.startswith("SLURM job ")
    assert why.endswith("waits: its partition is down")
    assert lab.client.resources().queued == 1
    lab.client.cancel(run_id)
    assert lab.ended(run_id).outcome is Outcome.CANCELLED
    assert not (lab.directory(run_id).path / "steps.txt").exists()
    until(lambda: not slurm.command("squeue", "-h"), "its job is gone")


def _told(lab: Trainer, run_id: str, word: str) -> str:
    reason = lab.client.get(run_id).wait_reason or ""
    return reason if word in reason else ""


def test_no_secret_is_in_the_job_or_left_on_the_disk(slurm: SlurmCluster, lab: Trainer) -> None:
    """A key reaches the worker, and neither the script, the job nor the shared folder shows it."""
    secret = "hunter2-hunter2-hunter2"
    slurm.command("scontrol", "update", "partitionname=debug", "state=down")
    run_id = lab.submit("steady", environment={"MY_API_KEY": secret})
    job = until(lambda: lab.client.get(run_id).job, "it has a job")
    script = slurm.command("scontrol", "write", "batch_script", job, "-")
    assert "supervisor.py" in script
    assert secret not in script + slurm.command("scontrol", "show", "job", job)
    launches = list(lab.home.launches.iterdir())
    assert [oct(path.stat().st_mode & 0o777) for path in launches] == ["0o600"]
    slurm.command("scontrol", "update", "partitionname=debug", "state=up")
    lab.wait_for(run_id, "EXEC")
    worker = lab.client.get(run_id).pid
    assert f"MY_API_KEY={secret}".encode() in Path(f"/proc/{worker}/environ").read_bytes()
    assert not list(lab.home.launches.iterdir())
    assert secret not in json.dumps(lab.supervisor(run_id))


def test_what_slurm_refuses_is_said(slurm: SlurmCluster, lab: Trainer) -> None:
    """A partition that does not exist ends the run with SLURM's own words."""
    run_id = lab.submit("steady", site="slurm:nowhere")
    ended = lab.ended(run_id)
    assert ended.outcome is Outcome.FAILED
    assert ended.reason is not None
    assert ended.reason.startswith("slurm:nowhere did not take it: SLURM refuses:")
    assert "nvalid partition" in ended.reason
