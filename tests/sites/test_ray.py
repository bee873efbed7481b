"""Runs on a Ray cluster of two nodes, and the C rows in which a part of it dies.

Ray's word about life and death is not believed: the run's own records are.
"""

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.box import MakeTrainer
from support.equal_runs import STROLLING, assert_equal, ppo_config
from support.ray_cluster import NODES, RayCluster, needed, running
from support.sshd import command_of
from support.trainer import Trainer, trainers, until
from support.wire import Wire, certificate, wire

from mosaic.records import Outcome
from mosaic.system.processes import marked_processes

# Ray needs twenty seconds to start on a busy machine, and notices a dead node after as many.
pytestmark = [pytest.mark.prove, pytest.mark.timeout(1200)]
PATIENCE_S = 400.0
SETTINGS = {"lost_after_s": "5"}
# Saves often, so that there is something to continue from when its node is cut off.
SAVES = {"extras": {"algo_params": {"checkpoint_interval_s": 0.5}}}


def _nodes(root: Path, lab: Trainer, cable: Wire | None = None) -> RayCluster:
    needed()
    own = {key: val for key, val in lab.environment().items() if key == "PYTHONPATH"}
    if cable is None:
        return RayCluster(root / "ray", own)
    return RayCluster(root / "ray", own, cpus=2, head_cpus=0, wire=cable)


@pytest.fixture
def lab(make_trainer: MakeTrainer) -> Trainer:
    """A daemon for a test that breaks something."""
    return make_trainer(**SETTINGS).start()


@pytest.fixture
def ray(tmp_path: Path, lab: Trainer) -> Iterator[RayCluster]:
    """Two nodes for a test that breaks them."""
    with running(_nodes(tmp_path, lab)) as made:
        yield made


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """One daemon for the tests that break nothing."""
    with trainers(tmp_path_factory.mktemp("lab"), python_path) as make:
        yield make(**SETTINGS).start()


@pytest.fixture(scope="module")
def shared_ray(
    shared_lab: Trainer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RayCluster]:
    """Two nodes for them."""
    with running(_nodes(tmp_path_factory.mktemp("cluster"), shared_lab)) as made:
        yield made


def _stepping(lab: Trainer, ray: RayCluster) -> str:
    run_id = lab.submit("steady", site=ray.site)
    until(lambda: lab.client.get(run_id).state == "EXEC", "it begins", PATIENCE_S)
    until(lambda: lab.steps(run_id) > 2, "it makes steps")
    return run_id


def _waits(lab: Trainer, run_id: str) -> bool:
    return "waits for" in (lab.client.get(run_id).wait_reason or "")


def _agents(lab: Trainer, run_id: str) -> list[int]:
    return [pid for pid in lab.processes() if command_of(pid)[-2:] == [run_id, ""]]


def _clean(lab: Trainer, ray: RayCluster, run_id: str) -> bool:
    left = _agents(lab, run_id) or marked_processes(run_id)
    return not left and not ray.node_of(run_id)


def test_a_run_begins_on_a_node_and_completes(shared_ray: RayCluster, shared_lab: Trainer) -> None:
    """States, log and numbers are those of a run here; nothing is left on the node."""
    run_id = shared_lab.submit("thorough", site=shared_ray.site)
    until(lambda: shared_lab.client.get(run_id).ended, "it ends", PATIENCE_S)
    ended = shared_lab.client.get(run_id)
    assert (ended.outcome, ended.reason) == (Outcome.COMPLETED, None)
    assert ended.metrics["episodic_return"] == 5.0
    assert "plain output" in shared_lab.directory(run_id).stdout.read_text()
    assert shared_lab.kinds(run_id)[1:4] == ["slots_reserved", "placed", "spawned"]
    until(lambda: _clean(shared_lab, shared_ray, run_id), "nothing is left there")


def test_what_does_not_fit_waits_and_what_ends_makes_room(
    shared_ray: RayCluster, shared_lab: Trainer
) -> None:
    """Two nodes with a CPU each: the third run says what it waits for, and then begins."""
    lab = shared_lab
    first, second = _stepping(lab, shared_ray), _stepping(lab, shared_ray)
    assert {shared_ray.node_of(first), shared_ray.node_of(second)} == set(NODES)
    third = lab.submit("steady", site=shared_ray.site)

    def told() -> str:
        reason = lab.client.get(third).wait_reason or ""
        return reason if "waits for" in reason else ""

    assert until(told, "the reason is shown") == "Ray: waits for 1 CPUs, 0 are free"
    lab.client.pause(first)
    lab.wait_for(first, "PAUSE")
    lab.client.resume(first)
    lab.wait_for(first, "EXEC")
    lab.client.cancel(first)
    assert lab.ended(first).outcome is Outcome.CANCELLED
    until(lambda: lab.steps(third) > 2, "the third begins", PATIENCE_S)
    for run_id in (second, third):
        lab.client.cancel(run_id)
        assert lab.ended(run_id).outcome is Outcome.CANCELLED
        until(lambda: _clean(lab, shared_ray, run_id), "nothing is left there")  # noqa: B023


def test_a_run_is_known_before_ray_has_heard_of_it() -> None:
    """However many are handed over at once, none is taken for lost while Ray works them off."""
    from mosaic.trainer.sites.ray_helper import Helper

    said = io.StringIO()
    helper = Helper(said, own=False)

    def known() -> dict[str, str]:
        helper.tell()
        actors = json.loads(said.getvalue().splitlines()[-1])["actors"]
        return {name: actor["state"] for name, actor in actors.items()}

    for number in range(2000):
        helper.take({"do": "place", "name": f"run-{number}", "demand": {"CPU": 1}, "fresh": True})
    assert known() == {f"run-{number}": "pending" for number in range(2000)}
    # And one that is cancelled meanwhile never gets there: this process has joined no cluster.
    for number in range(2000):
        helper.take({"do": "end", "name": f"run-{number}"})
    assert known() == {}
    helper.work(PATIENCE_S)
    assert not helper.busy


def test_c30_daemon_and_agent_die(ray: RayCluster, lab: Trainer) -> None:
    """The worker does not notice; the next daemon finds its actor, which starts another agent."""
    run_id = _stepping(lab, ray)
    worker = lab.client.get(run_id).pid
    lab.kill()
    for pid in _agents(lab, run_id):
        os.kill(pid, signal.SIGKILL)
    lab.start()
    before = lab.steps(run_id)
    until(lambda: lab.steps(run_id) > before, "its steps arrive again", PATIENCE_S)
    assert marked_processes(run_id) == [worker]
    lab.client.cancel(run_id)
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.exit_code, ended.attempt) == (Outcome.CANCELLED, 143, 1)


@pytest.mark.prove
def test_c35_the_daemon_dies_while_runs_wait_in_ray(ray: RayCluster, lab: Trainer) -> None:
    """The next daemon finds them in Ray's queue: none is placed twice, and all have their turn."""
    first, second = _stepping(lab, ray), _stepping(lab, ray)
    waiting = [lab.submit("steady", site=ray.site) for _ in range(3)]
    for run_id in waiting:
        until(lambda: _waits(lab, run_id), "it waits")  # noqa: B023
    lab.kill()
    lab.start()
    for run_id in waiting:
        until(lambda: _waits(lab, run_id), "it waits again")  # noqa: B023
    left = {first, second, *waiting}
    while left:
        turns = (lambda: next((one for one in left if lab.steps(one) > 2), ""), "one has its turn")
        run_id = until(*turns, PATIENCE_S)
        assert lab.kinds(run_id).count("placed") == 1
        lab.client.cancel(run_id)
        assert lab.ended(run_id).outcome is Outcome.CANCELLED
        until(lambda: _clean(lab, ray, run_id), "nothing is left there")  # noqa: B023
        left.remove(run_id)


def test_c31_the_raylet_of_its_node_dies(ray: RayCluster, lab: Trainer) -> None:
    """Ray loses the node; the run on it lives, is heard, and ends as what it was."""
    run_id = _stepping(lab, ray)
    worker = lab.client.get(run_id).pid
    ray.kill_raylet(ray.node_of(run_id))
    before = lab.steps(run_id)
    until(lambda: lab.steps(run_id) > before + 100, "it steps on")
    assert marked_processes(run_id) == [worker]
    lab.client.cancel(run_id)
    ended = lab.ended(run_id)
    assert (ended.outcome, ended.attempt) == (Outcome.CANCELLED, 1)


def test_c32_the_memory_of_the_cluster_dies(ray: RayCluster, lab: Trainer) -> None:
    """Without Ray's GCS a run steps on, can be paused and cancelled, and leaves nothing."""
    run_id = _stepping(lab, ray)
    ray.kill_gcs()
    lab.client.pause(run_id)
    lab.wait_for(run_id, "PAUSE")
    lab.client.resume(run_id)
    before = lab.steps(run_id)
    until(lambda: lab.steps(run_id) > before, "it steps again")
    lab.client.cancel(run_id)
    assert lab.ended(run_id).outcome is Outcome.CANCELLED
    until(lambda: _clean(lab, ray, run_id), "nothing is left there")


@pytest.fixture
def big_lab(make_trainer: MakeTrainer) -> Trainer:
    """A daemon whose runs need what only the second node has."""
    return make_trainer(**SETTINGS, ray_resources="big=1").start()


@pytest.fixture
def big_ray(tmp_path: Path, big_lab: Trainer) -> Iterator[RayCluster]:
    """Two nodes for it."""
    with running(_nodes(tmp_path, big_lab)) as made:
        yield made


def test_c33_a_node_is_lost_with_all_that_ran_on_it(big_ray: RayCluster, big_lab: Trainer) -> None:
    """The run goes back to Ray's queue, says what it lacks, and continues as the next attempt."""
    lab = big_lab
    run_id = _stepping(lab, big_ray)
    assert big_ray.node_of(run_id) == "r2"
    big_ray.kill_raylet("r2")
    supervisor = int(lab.supervisor(run_id)["supervisor_pid"])
    for pid in (*_agents(lab, run_id), supervisor, *marked_processes(run_id)):
        os.kill(pid, signal.SIGKILL)
    until(lambda: lab.client.get(run_id).attempt == 2, "another attempt", PATIENCE_S)
    lacks = "Ray: needs 1 big, the cluster has 0"
    until(lambda: lab.client.get(run_id).wait_reason == lacks, "it says why", PATIENCE_S)
    big_ray.start_second()
    until(lambda: lab.client.get(run_id).state == "EXEC", "it runs again", PATIENCE_S)
    again = lab.client.get(run_id)
    assert (again.attempt, marked_processes(run_id)) == (2, [again.pid])
    lab.client.cancel(run_id)
    assert lab.ended(run_id).outcome is Outcome.CANCELLED


# ------------------------------------------------------------ the network


@pytest.fixture
def cable() -> Iterator[Wire]:
    """The network of the second node."""
    needed()
    with wire() as made:
        yield made


@pytest.fixture
def far_lab(tmp_path: Path, cable: Wire, make_trainer: MakeTrainer) -> Trainer:
    """A daemon that nodes beyond this machine reach, with TLS."""
    return make_trainer(**SETTINGS).start(*certificate(tmp_path, cable.here))


@pytest.fixture
def far_ray(tmp_path: Path, far_lab: Trainer, cable: Wire) -> Iterator[RayCluster]:
    """A head without CPUs, and a node with two behind the cable."""
    with running(_nodes(tmp_path, far_lab, cable)) as made:
        yield made


def test_c34_a_node_loses_the_network(far_ray: RayCluster, far_lab: Trainer, cable: Wire) -> None:
    """Its runs continue elsewhere; the first workers, alive all the time, are heard no more.

    One has even come to its end unheard. Its records are not believed: the run is the one that
    continued from the last checkpoint, to the same bits.
    """
    lab = far_lab
    steady = _stepping(lab, far_ray)
    learns = lab.client.submit(ppo_config(far_ray.site, env_id=STROLLING, **SAVES)).run_id
    until(lambda: lab.client.get(learns).checkpoints, "it has saved", PATIENCE_S)
    late = [lab.client.get(run_id).pid for run_id in (steady, learns)]
    cable.cut()
    far_ray.start_node("r3")
    for run_id in (steady, learns):
        until(lambda: lab.client.get(run_id).attempt == 2, "another attempt", PATIENCE_S)  # noqa: B023
    until(lambda: lab.client.get(steady).state == "EXEC", "it begins", PATIENCE_S)
    again = lab.client.get(steady).pid
    assert sorted(marked_processes(steady)) == sorted([late[0], again]), "both are alive"
    until(lambda: lab.client.get(learns).ended, "it ends", PATIENCE_S)
    until(lambda: late[1] not in marked_processes(learns), "so does the first, unheard", PATIENCE_S)

    cable.join()
    until(lambda: marked_processes(steady) == [again], "the late worker is gone", PATIENCE_S)
    before = lab.steps(steady)
    until(lambda: lab.steps(steady) > before, "the other steps on")
    lab.client.cancel(steady)
    assert lab.ended(steady).outcome is Outcome.CANCELLED
    ended = lab.client.get(learns)
    assert (ended.outcome, ended.attempt) == (Outcome.COMPLETED, 2)
    for run_id in (steady, learns):
        assert lab.kinds(run_id).count("spawned") == 2
        until(lambda: _clean(lab, far_ray, run_id), "nothing is left", PATIENCE_S)  # noqa: B023
    local = lab.client.submit(ppo_config("local", **SAVES)).run_id
    assert_equal(lab, ended, lab.ended(local))
