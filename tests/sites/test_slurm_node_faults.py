"""C rows of the fault matrix in which a node loses its disk or its network, and keeps its power.

Nothing is killed: processes live on and cannot write, or cannot be heard. Each run has one owner
throughout, none is lost or doubled, and its weights are those of an undisturbed run.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.equal_runs import STROLLING, assert_equal, ppo_config
from support.slurm import SlurmCluster, needed, running
from support.tiny_disk import TinyDisk, tiny_disk
from support.trainer import Trainer, until
from support.wire import Wire, certificate, wire

from mosaic.records import Outcome
from mosaic.system.processes import marked_processes

from .conftest import SETTINGS, MakeTrainer

# Longer than the rest of a busy machine's work: SLURM gives a node up after its own timeouts.
pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
SLURMS_PATIENCE_S = 250.0
# Saves often, so that there is something to continue from when the disk is full.
SAVES = {"extras": {"algo_params": {"checkpoint_interval_s": 0.5}}}


# ------------------------------------------------------------ the disk


@pytest.fixture
def shared_disk(tmp_path: Path) -> Iterator[TinyDisk]:
    """The file system that the nodes share with the daemon."""
    with tiny_disk(tmp_path / "disk") as disk:
        yield disk


def test_c14_a_run_is_preempted_while_the_shared_folder_is_full(
    shared_disk: TinyDisk, slurm: SlurmCluster, make_trainer: MakeTrainer
) -> None:
    """It can neither save nor say how it ended; with room again it continues to the same bits."""
    lab = make_trainer("disk/home", **SETTINGS).start()
    run_id = lab.client.submit(ppo_config("slurm:low", env_id=STROLLING, **SAVES)).run_id
    until(lambda: lab.client.get(run_id).checkpoints, "it has saved")
    job = lab.client.get(run_id).job
    shared_disk.fill()
    slurm.command("sbatch", "-p", "high", "-c", "2", "--output=/dev/null", "--wrap=sleep 3")
    until(lambda: slurm.restarts(job) == 1, "SLURM has taken the node", SLURMS_PATIENCE_S)
    until(lambda: not marked_processes(run_id), "its worker is gone", SLURMS_PATIENCE_S)
    assert not lab.client.get(run_id).ended
    shared_disk.empty()
    until(lambda: lab.client.get(run_id).attempt == 2, "another attempt", SLURMS_PATIENCE_S)
    until(lambda: lab.client.get(run_id).ended, "it ends", SLURMS_PATIENCE_S)
    ended = lab.client.get(run_id)
    assert (ended.outcome, ended.attempt) == (Outcome.COMPLETED, 2)
    kinds = lab.kinds(run_id)
    assert (kinds.count("requeued"), kinds.count("spawned")) == (1, 2)
    assert_equal(lab, ended, lab.ended(lab.client.submit(ppo_config("local", **SAVES)).run_id))
    assert not marked_processes(run_id)
    until(lambda: not slurm.command("squeue", "-h"), "no job is left")


def test_c14_a_full_disk_of_a_node_holds_a_job_and_loses_none(
    tmp_path: Path, make_trainer: MakeTrainer
) -> None:
    """A node without room for a job's script: the run says so, and begins once when released."""
    needed()
    cluster = SlurmCluster(tmp_path / "slurm")
    with tiny_disk(cluster.spool("n1")) as disk, running(cluster) as slurm:
        lab = make_trainer(**{**SETTINGS, "site": "slurm:low"}).start()
        disk.fill()
        run_id = lab.submit("short")

        def told() -> str:
            reason = lab.client.get(run_id).wait_reason or ""
            return reason if "start failed" in reason else ""

        why = until(told, "it says why it waits", SLURMS_PATIENCE_S)
        job = lab.client.get(run_id).job
        assert why.endswith(f"is held after its start failed; run: scontrol release {job}")
        assert lab.kinds(run_id).count("spawned") == 0
        disk.empty()
        # What an administrator does for such a node: SLURM has set it aside, and stumbles over the
        # half of a script that the failed start has left. Then what the sentence says.
        shutil.rmtree(slurm.spool("n1") / f"job{int(job):05}")
        slurm.command("scontrol", "update", "nodename=n1", "state=resume")
        slurm.command("scontrol", "release", job)
        until(lambda: lab.client.get(run_id).ended, "it ends", SLURMS_PATIENCE_S)
        ended = lab.client.get(run_id)
        assert (ended.outcome, ended.reason, ended.job) == (Outcome.COMPLETED, None, job)
        assert lab.kinds(run_id).count("spawned") == 1
        assert not marked_processes(run_id)


# ------------------------------------------------------------ the network


@pytest.fixture
def cable() -> Iterator[Wire]:
    """The network of the node `n1`."""
    needed()
    with wire() as made:
        yield made


@pytest.fixture
def wired(tmp_path: Path, cable: Wire) -> Iterator[SlurmCluster]:
    """Two nodes, the first behind the cable."""
    with running(SlurmCluster(tmp_path / "slurm", wires={"n1": cable})) as made:
        yield made


@pytest.fixture
def wired_lab(
    tmp_path: Path, cable: Wire, wired: SlurmCluster, make_trainer: MakeTrainer
) -> Trainer:
    """A daemon that both nodes reach, with TLS: it listens beyond this machine."""
    return make_trainer(**SETTINGS).start(*certificate(tmp_path, cable.here))


def test_c15_a_node_loses_the_network(wired: SlurmCluster, wired_lab: Trainer, cable: Wire) -> None:
    """Its runs train on with one worker each, though SLURM gives their jobs to another node.

    One ends meanwhile as what it was. The other is ended when the node is back, by SLURM, and
    continues on the node that has its job now.
    """
    lab = wired_lab
    wired.command("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
    steady = lab.stepping()
    learns = lab.client.submit(ppo_config("slurm:debug", env_id=STROLLING)).run_id
    until(lambda: lab.client.get(learns).progress.step > 2_000, "it trains", SLURMS_PATIENCE_S)
    assert {steady.host, lab.client.get(learns).host} == {"n1"}
    wired.command("scontrol", "update", "nodename=n2", "state=resume")
    cable.cut()
    until(lambda: wired.restarts(steady.job) == 1, "SLURM gives the node up", SLURMS_PATIENCE_S)
    until(lambda: lab.client.get(learns).ended, "the other run ends", SLURMS_PATIENCE_S)
    ended = lab.client.get(learns)
    assert (ended.outcome, ended.attempt, ended.host) == (Outcome.COMPLETED, 1, "n1")
    before = lab.steps(steady.run_id)
    until(lambda: lab.steps(steady.run_id) > before, "it makes steps")
    assert marked_processes(steady.run_id) == [steady.pid]
    assert lab.client.get(steady.run_id).attempt == 1

    until(lambda: _runs_on(wired, steady.job) == "n2", "its job is elsewhere", SLURMS_PATIENCE_S)
    cable.join()
    until(lambda: lab.client.get(steady.run_id).attempt == 2, "another attempt", SLURMS_PATIENCE_S)
    until(lambda: lab.client.get(steady.run_id).state == "EXEC", "it begins", SLURMS_PATIENCE_S)
    again = lab.client.get(steady.run_id)
    assert (again.host, again.job) == ("n2", steady.job)
    assert marked_processes(steady.run_id) == [again.pid]
    kinds = lab.kinds(steady.run_id)
    assert (kinds.count("requeued"), kinds.count("spawned")) == (1, 2)
    lab.client.cancel(steady.run_id)
    assert lab.ended(steady.run_id).outcome is Outcome.CANCELLED
    assert_equal(lab, ended, lab.ended(lab.client.submit(ppo_config("local")).run_id))
    until(lambda: not wired.command("squeue", "-h"), "no job is left", SLURMS_PATIENCE_S)
    assert not marked_processes(steady.run_id)


def _runs_on(slurm: SlurmCluster, job: str) -> str:
    return slurm.command("squeue", "-h", "-j", job, "-t", "RUNNING", "-o", "%N")
