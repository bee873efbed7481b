"""A run moves to SLURM by one word, and keeps its states, log, pause, cancel and checkpoints."""

import json
import time
from pathlib import Path

from support.slurm import NODES, SlurmCluster
from support.trainer import Trainer, until

from mosaic.records import Outcome
from mosaic.system.processes import marked_processes


def test_a_run_begins_on_a_node_and_completes(
    shared_slurm: SlurmCluster, shared_lab: Trainer
) -> None:
    """States, log and numbers are those of a run of this machine; the site is shown."""
    run_id = shared_lab.submit("thorough")
    ended = shared_lab.ended(run_id)
    assert (ended.outcome, ended.reason) == (Outcome.COMPLETED, None)
    assert ended.site == "slurm:debug"
    assert ended.host in NODES
    assert ended.job.isdigit()
    assert ended.metrics["episodic_return"] == 5.0
    assert "plain output" in shared_lab.directory(run_id).stdout.read_text()
    kinds = shared_lab.kinds(run_id)
    assert kinds[:3] == ["submitted", "slots_reserved", "placed"]
    assert kinds[3:6] == ["spawned", "worker_registered", "run_started"]
    # Its node is SLURM's to give; the slots of this machine stay free.
    assert shared_lab.free_slots() == 2
    assert not list(shared_lab.home.launches.iterdir())


def test_a_running_job_can_be_paused_resumed_and_cancelled(
    shared_slurm: SlurmCluster, shared_lab: Trainer
) -> None:
    """Signals reach a worker on a node, and the job ends with the run."""
    record = shared_lab.stepping()
    shared_lab.client.pause(record.run_id)
    shared_lab.wait_for(record.run_id, "PAUSE")
    until(lambda: _stands_still(shared_lab, record.run_id), "the worker stands still")
    shared_lab.client.resume(record.run_id)
    before = shared_lab.steps(record.run_id)
    until(lambda: shared_lab.steps(record.run_id) > before, "it steps again")
    shared_lab.client.cancel(record.run_id)
    ended = shared_lab.ended(record.run_id)
    assert ended.outcome is Outcome.CANCELLED
    assert ended.exit_code == 143
    until(lambda: not shared_slurm.command("squeue", "-h"), "its job is gone")


def _stands_still(lab: Trainer, run_id: str) -> bool:
    before = lab.steps(run_id)
    time.sleep(0.5)
    return lab.steps(run_id) == before


def test_a_waiting_job_says_why_and_can_be_cancelled(
    shared_slurm: SlurmCluster, shared_lab: Trainer
) -> None:
    """The wait reason is SLURM's, in plain words; a cancelled job never begins."""
    shared_slurm.command("scontrol", "update", "partitionname=debug", "state=down")
    run_id = shared_lab.submit("steady")
    why = until(lambda: _told(shared_lab, run_id, "partition"), "the reason is shown")
    assert why.startswith("SLURM job ")
    assert why.endswith("waits: its partition is down")
    assert shared_lab.client.resources().queued == 1
    shared_lab.client.cancel(run_id)
    assert shared_lab.ended(run_id).outcome is Outcome.CANCELLED
    shared_slurm.command("scontrol", "update", "partitionname=debug", "state=up")
    assert not (shared_lab.directory(run_id).path / "steps.txt").exists()
    until(lambda: not shared_slurm.command("squeue", "-h"), "its job is gone")


def _told(lab: Trainer, run_id: str, word: str) -> str:
    reason = lab.client.get(run_id).wait_reason or ""
    return reason if word in reason else ""


def test_no_secret_is_in_the_job_or_left_on_the_disk(
    shared_slurm: SlurmCluster, shared_lab: Trainer
) -> None:
    """A key reaches the worker, and neither the script, the job nor the shared folder shows it."""
    secret = "hunter2-hunter2-hunter2"
    shared_slurm.command("scontrol", "update", "partitionname=debug", "state=down")
    run_id = shared_lab.submit("steady", environment={"MY_API_KEY": secret})
    job = until(lambda: shared_lab.client.get(run_id).job, "it has a job")
    script = shared_slurm.command("scontrol", "write", "batch_script", job, "-")
    assert "supervisor.py" in script
    assert secret not in script + shared_slurm.command("scontrol", "show", "job", job)
    launches = list(shared_lab.home.launches.iterdir())
    assert [oct(path.stat().st_mode & 0o777) for path in launches] == ["0o600"]
    shared_slurm.command("scontrol", "update", "partitionname=debug", "state=up")
    shared_lab.wait_for(run_id, "EXEC")
    worker = shared_lab.client.get(run_id).pid
    assert f"MY_API_KEY={secret}".encode() in Path(f"/proc/{worker}/environ").read_bytes()
    assert not list(shared_lab.home.launches.iterdir())
    assert secret not in json.dumps(shared_lab.supervisor(run_id))
    shared_lab.client.cancel(run_id)
    shared_lab.ended(run_id)


def test_what_slurm_refuses_is_said(shared_slurm: SlurmCluster, shared_lab: Trainer) -> None:
    """A partition that does not exist ends the run with SLURM's own words."""
    run_id = shared_lab.submit("steady", site="slurm:nowhere")
    ended = shared_lab.ended(run_id)
    assert ended.outcome is Outcome.FAILED
    assert ended.reason is not None
    assert ended.reason.startswith("slurm:nowhere did not take it: SLURM refuses:")
    assert "nvalid partition" in ended.reason


def test_c7_a_job_that_is_cancelled_behind_our_back(
    shared_slurm: SlurmCluster, shared_lab: Trainer
) -> None:
    """`scancel` by someone else ends the run as cancelled, with the reason; it saved first."""
    record = shared_lab.stepping()
    shared_slurm.command("scancel", record.job)
    ended = shared_lab.ended(record.run_id)
    assert ended.outcome is Outcome.CANCELLED
    assert ended.reason == f"SLURM job {record.job} was cancelled from outside (scancel)"
    assert not marked_processes(record.run_id)


def test_c8_a_requeued_job_goes_on_as_the_next_attempt(
    shared_slurm: SlurmCluster, shared_lab: Trainer
) -> None:
    """What SLURM puts back into its queue waits, and begins again in the same run and job."""
    record = shared_lab.stepping()
    shared_slurm.command("scontrol", "requeue", record.job)
    until(lambda: shared_lab.client.get(record.run_id).attempt == 2, "another attempt")
    again = shared_lab.wait_for(record.run_id, "EXEC")
    assert (again.attempt, again.job) == (2, record.job)
    assert again.pid != record.pid
    assert marked_processes(record.run_id) == [again.pid]
    kinds = shared_lab.kinds(record.run_id)
    assert (kinds.count("requeued"), kinds.count("spawned")) == (1, 2)
    shared_lab.client.cancel(record.run_id)
    assert shared_lab.ended(record.run_id).outcome is Outcome.CANCELLED
