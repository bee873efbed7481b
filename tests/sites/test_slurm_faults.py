"""C rows of the fault matrix: SLURM forgets, dies, preempts and is cancelled behind our back.

Whatever happens to the controller, a node's daemon or our own, a run has one worker, is neither
lost nor doubled, and ends as what it was.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.slurm import SlurmCluster
from support.trainer import Trainer, until

from mosaic.records import Outcome
from mosaic.system.processes import marked_processes

MakeTrainer = Callable[..., Trainer]
# Each breaks a cluster of its own and waits until that is noticed. The rows without a broken part
# (`scancel` from outside, requeue) are in `test_slurm.py`.
pytestmark = pytest.mark.prove


def _workers(run_id: str) -> list[int]:
    return marked_processes(run_id)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_c1_the_controller_is_gone_and_the_run_does_not_care(
    slurm: SlurmCluster, lab: Trainer, how: signal.Signals
) -> None:
    """Without a controller a run trains on, can be paused and cancelled, and ends as cancelled."""
    record = lab.stepping()
    slurm.signal("slurmctld", how)
    lab.client.pause(record.run_id)
    lab.wait_for(record.run_id, "PAUSE")
    lab.client.resume(record.run_id)
    lab.wait_for(record.run_id, "EXEC")
    lab.client.cancel(record.run_id)
    assert lab.ended(record.run_id).outcome is Outcome.CANCELLED
    assert not _workers(record.run_id)
    if how == signal.SIGSTOP:
        # The daemon leaves in order, whatever hangs in SLURM.
        os.kill(lab.pid, signal.SIGTERM)
        assert lab.wait_for_death() == 0
    slurm.revive_controller()
    until(lambda: not slurm.command("squeue", "-h"), "its job is gone")


def test_c2_a_submission_waits_for_a_dead_controller(slurm: SlurmCluster, lab: Trainer) -> None:
    """A run that is submitted while SLURM does not answer says so, waits and then begins."""
    slurm.kill("slurmctld")
    run_id = lab.submit("short")
    until(lambda: "SLURM does not answer" in (lab.client.get(run_id).wait_reason or ""), "it waits")
    slurm.start_controller()
    assert lab.ended(run_id).outcome is Outcome.COMPLETED


def test_c3_a_forgotten_job_is_placed_again_although_its_number_is_another_jobs(
    slurm: SlurmCluster, lab: Trainer
) -> None:
    """A controller that lost its state gave the number of our job to another: ours runs once."""
    slurm.command("scontrol", "update", "partitionname=debug", "state=down")
    run_id = lab.submit("short", extras={"seconds": 0.2})
    number = until(lambda: lab.client.get(run_id).job, "it has a job")
    slurm.kill("slurmctld")
    slurm.forget()
    slurm.start_controller()
    until(slurm.idle, "nodes are back")
    foreign = slurm.command("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 600")
    assert foreign == number
    ended = lab.ended(run_id)
    assert ended.outcome is Outcome.COMPLETED
    assert ended.job != number
    kinds = lab.kinds(run_id)
    assert (kinds.count("placed"), kinds.count("spawned")) == (2, 1)
    # The stranger's job was left alone.
    assert slurm.command("squeue", "-h", "-j", foreign, "-o", "%T") == "RUNNING"


def test_c4_our_daemon_dies_with_a_job_that_waits(slurm: SlurmCluster, lab: Trainer) -> None:
    """A new daemon finds the job in SLURM's queue, and the run begins once."""
    slurm.command("scontrol", "update", "partitionname=debug", "state=down")
    run_id = lab.submit("short")
    job = until(lambda: lab.client.get(run_id).job, "it has a job")
    lab.restart()
    slurm.command("scontrol", "update", "partitionname=debug", "state=up")
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.job) == (Outcome.COMPLETED, job)
    assert lab.kinds(run_id).count("spawned") == 1


def test_c5_our_daemon_dies_between_submission_and_record(
    slurm: SlurmCluster, make_trainer: MakeTrainer
) -> None:
    """SLURM has taken the job and no event says so: the next daemon finds it and makes no other."""
    lab = make_trainer(site="slurm:debug", lost_after_s="5", site_poll_s="0.5")
    lab.start(MOSAIC_FAULT="after_place:kill")
    run_id = lab.submit("steady")
    lab.wait_for_death()
    lab.start()
    lab.wait_for(run_id, "EXEC")
    assert len(slurm.command("squeue", "-h", "--states=all", "-o", "%i").split()) == 1
    assert len(_workers(run_id)) == 1


def test_c6_our_daemon_dies_while_the_run_trains(slurm: SlurmCluster, lab: Trainer) -> None:
    """A new daemon adopts the worker on the node, which obeys it."""
    record = lab.stepping()
    lab.restart()
    until(lambda: "adopted" in lab.kinds(record.run_id), "it was adopted")
    assert lab.client.get(record.run_id).pid == record.pid
    lab.client.cancel(record.run_id)
    assert lab.ended(record.run_id).outcome is Outcome.CANCELLED


def test_c9_a_node_that_was_taken_for_dead_comes_back(slurm: SlurmCluster, lab: Trainer) -> None:
    """SLURM gives the run of a frozen node to another; the first worker wakes up and is fenced."""
    record = lab.stepping()
    supervisor = int(lab.supervisor(record.run_id)["supervisor_pid"])
    first = [supervisor, *_workers(record.run_id)]
    slurm.kill(record.host)
    for pid in first:
        os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: lab.client.get(record.run_id).attempt == 2, "another attempt")
        again = lab.wait_for(record.run_id, "EXEC")
        assert again.host != record.host
    finally:
        for pid in first:
            os.kill(pid, signal.SIGCONT)
    until(lambda: _workers(record.run_id) == [again.pid], "the late worker is gone")
    assert not lab.directory(record.run_id).exit.exists()
    assert lab.client.get(record.run_id).state == "EXEC"


def test_c10_a_nodes_daemon_dies_and_the_run_on_it_lives(slurm: SlurmCluster, lab: Trainer) -> None:
    """SLURM gives the node up and begins the job elsewhere; the run has one worker all the same."""
    record = lab.stepping()
    slurm.kill(record.host)
    until(lambda: slurm.restarts(record.job) == 1, "SLURM has put the job back", 300)
    until(lambda: slurm.command("squeue", "-h", "-o", "%T") == "RUNNING", "it runs elsewhere", 300)
    assert _workers(record.run_id) == [record.pid]
    assert lab.client.get(record.run_id).attempt == 1
    lab.client.cancel(record.run_id)
    assert lab.ended(record.run_id).outcome is Outcome.CANCELLED
    until(lambda: not slurm.command("squeue", "-h"), "the second job is gone too")


def test_c11_a_run_whose_job_and_node_are_gone_is_lost(slurm: SlurmCluster, lab: Trainer) -> None:
    """Silent, and forgotten by SLURM, for long: only then it is called lost."""
    record = lab.stepping()
    supervisor = int(lab.supervisor(record.run_id)["supervisor_pid"])
    slurm.kill("slurmctld")
    slurm.kill(record.host)
    for pid in (supervisor, *_workers(record.run_id)):
        os.kill(pid, signal.SIGKILL)
    reason = until(lambda: lab.client.get(record.run_id).reason, "it is shown as unreachable")
    assert reason.startswith("unreachable since")
    assert lab.client.get(record.run_id).live
    slurm.forget()
    slurm.start_controller()
    ended = lab.ended(record.run_id)
    assert ended.outcome is Outcome.LOST
    assert ended.reason is not None
    assert "SLURM has forgotten job" in ended.reason


# ------------------------------------------------------------ in pairs


@pytest.mark.parametrize("other", ["slurmctld", "node"])
def test_c12_our_daemon_and_a_part_of_slurm_die_together(
    slurm: SlurmCluster, lab: Trainer, other: str
) -> None:
    """Both come back: one worker, adopted and obedient, and what waited begins once."""
    record = lab.stepping()
    slurm.command("scontrol", "update", "partitionname=high", "state=down")
    waiting = lab.submit("short", site="slurm:high")
    until(lambda: lab.client.get(waiting).job, "it has a job")
    lab.kill()
    slurm.kill(record.host if other == "node" else other)
    time.sleep(1.0)
    assert _workers(record.run_id) == [record.pid]
    if other == "node":
        # Before SLURM gives the node up: the job is still there, and so is its worker.
        slurm.start_node(record.host)
        lab.start()
    else:
        lab.start()
        slurm.start_controller()
    until(lambda: "adopted" in lab.kinds(record.run_id), "it was adopted")
    before = lab.steps(record.run_id)
    until(lambda: lab.steps(record.run_id) > before, "it makes steps")
    found = lab.client.get(record.run_id)
    assert (found.state, found.pid, found.attempt) == ("EXEC", record.pid, 1)
    until(lambda: _opened(slurm), "the partition is up again")
    assert lab.ended(waiting).outcome is Outcome.COMPLETED
    assert lab.kinds(waiting).count("spawned") == 1
    lab.client.cancel(record.run_id)
    assert lab.ended(record.run_id).outcome is Outcome.CANCELLED
    assert not _workers(record.run_id)
    until(lambda: not slurm.command("squeue", "-h"), "no job is left")


def _opened(slurm: SlurmCluster) -> bool:
    """Asked until it is so: a controller that has just begun may not have heard the first time."""
    slurm.command("scontrol", "update", "partitionname=high", "state=up")
    return slurm.command("sinfo", "-h", "-p", "high", "-o", "%a") == "up"


# ------------------------------------------------------------ the clock

_SKEW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, found);
    if (!status && clock == CLOCK_REALTIME) found->tv_sec += %d;
    return status;
}
"""


@pytest.mark.parametrize("skew_s", [3600, -3600])
def test_c13_the_clock_of_a_node_is_an_hour_off(
    slurm: SlurmCluster, make_trainer: MakeTrainer, tmp_path: Path, skew_s: int
) -> None:
    """A lease is judged by its changes: the run is neither lost nor stalled, and ends in time."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    source, library = tmp_path / "skew.c", tmp_path / "skew.so"
    source.write_text(_SKEW % skew_s)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    lab = make_trainer(
        site="slurm:debug", lost_after_s="5", site_poll_s="0.5",
        slurm_options=f"--export=ALL,LD_PRELOAD={library}",
    ).start()  # fmt: skip
    record = lab.stepping()
    said = lab.supervisor(record.run_id)["started_at"] - time.time()
    assert abs(said - skew_s) < 600, "the clock of the node is wrong"
    # Longer than a silence may last, and than two leases.
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        seen = lab.client.get(record.run_id)
        assert (seen.state, seen.stalled, seen.reason) == ("EXEC", False, None)
        time.sleep(0.5)
    lab.client.cancel(record.run_id)
    ended = lab.ended(record.run_id)
    assert ended.outcome is Outcome.CANCELLED
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert 0 <= ended.finished_at - ended.started_at < 600, "its duration is that of a clock"
    assert not _workers(record.run_id)
