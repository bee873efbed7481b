"""The whole worker as users start it: real agents, real XMPP servers, real kills."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.bdi import (
    ExternalServer,
    LiveWorker,
    newest_checkpoint,
    run_worker,
    wait_until,
)
from support.patience import PATIENCE_S

from spade_bdi_rl_worker.agent import CoachAgent, LearnerAgent
from spade_bdi_rl_worker.mind import Mind
from spade_bdi_rl_worker.plans import find_plan
from spade_bdi_rl_worker.server import EmbeddedServer

DRY = '{"is_slippery": false}'


@pytest.fixture
def external(tmp_path: Path) -> Iterator[ExternalServer]:
    """An XMPP server that is not the worker's."""
    folder = tmp_path / "xmpp"
    folder.mkdir()
    server = ExternalServer(folder)
    server.start()
    yield server
    if server.process is not None:
        server.kill()


def test_agents_learn_frozen_lake_with_the_embedded_server(tmp_path: Path) -> None:
    """Two SPADE agents on the embedded server solve the lake; the policy evaluates as good."""
    run = run_worker("--env-kwargs", DRY, "--episodes", 400, "--run-dir", tmp_path)
    assert run.code == 0, run.stderr
    assert run.last["event"] == "run_completed"
    manifest = json.loads((tmp_path / "analytics.json").read_text())
    kinds = [item["kind"] for item in manifest["artifacts"]["checkpoints"]]
    assert kinds == ["full", "policy"]
    assert newest_checkpoint(tmp_path)["beliefs"] == ['advice(exploit)[source("coach@localhost")]']
    graded = run_worker(
        "--mode", "policy_eval", "--policy-path", tmp_path / "checkpoints/policy.json",
        "--env-kwargs", DRY, "--eval-episodes", 5, "--run-dir", tmp_path / "eval",
    )  # fmt: skip
    assert graded.last["summary"]["success_rate"] == 1.0
    summary = json.loads((tmp_path / "eval/eval_summary.json").read_text())
    assert summary == graded.last["summary"]


def test_agents_learn_with_an_external_server(tmp_path: Path, external: ExternalServer) -> None:
    """The same with a server that the worker knows only by JID, password and address."""
    arguments = ["--env-kwargs", DRY, "--episodes", 60, "--run-dir", tmp_path]
    login = external.login("robin", "secret://password")
    unknown = run_worker(*arguments, *login)
    assert unknown.code == 1
    assert "the secret 'password' was not handed to this run" in unknown.last["reason"]
    run = run_worker(*arguments, *login, MOSAIC_SECRET_PASSWORD="open sesame")
    assert run.code == 0, run.stderr
    assert newest_checkpoint(tmp_path)["beliefs"][0].endswith('[source("robin-coach@localhost")]')
    assert "open sesame" not in run.stderr + run.stdout


def test_a_wrong_password_is_one_clear_sentence(tmp_path: Path, external: ExternalServer) -> None:
    """An account that exists and another password: refused, named, nothing hangs."""
    first = run_worker("--episodes", 1, "--run-dir", tmp_path / "a", *external.login("kim", "one"))
    assert first.code == 0, first.stderr
    second = run_worker("--episodes", 1, "--run-dir", tmp_path / "b", *external.login("kim", "two"))
    assert second.code == 1
    assert second.last["event"] == "run_failed"
    assert "refused kim@localhost: wrong JID or password" in second.last["reason"]


def test_a_server_that_is_not_there_is_named(tmp_path: Path, external: ExternalServer) -> None:
    """Nobody listens: the address and what to do about it."""
    login = external.login("kim", "one")
    external.kill()
    run = run_worker("--episodes", 1, "--run-dir", tmp_path, *login)
    assert run.code == 1
    assert f"no XMPP server answers at 127.0.0.1:{external.port}" in run.last["reason"]
    assert "embedded" in run.last["hint"]


def test_a_server_that_dies_in_the_middle_ends_the_run_with_its_progress_kept(
    tmp_path: Path, external: ExternalServer
) -> None:
    """The server is killed for good: a clear failure, and a checkpoint that can be resumed."""
    worker = LiveWorker(
        "--episodes", 100000, "--run-dir", tmp_path, "--reconnect-s", 1,
        *external.login("kim", "one"),
    )  # fmt: skip
    worker.wait_for("metrics")
    external.kill()
    ended = worker.finish()
    assert ended.code == 1
    assert "has gone and did not come back" in ended.last["reason"]
    assert newest_checkpoint(tmp_path)["learner"]["episode"] > 0


def test_a_server_that_comes_back_costs_nothing(tmp_path: Path, external: ExternalServer) -> None:
    """The server is restarted in the middle: the agents log in again and finish."""
    worker = LiveWorker(
        "--episodes", 700, "--run-dir", tmp_path, "--reconnect-s", PATIENCE_S,
        *external.login("kim", "one"),
    )  # fmt: skip
    worker.wait_for("metrics")
    external.kill()
    worker.wait_for("note")
    external.start()
    ended = worker.finish()
    assert ended.code == 0, ended.stderr
    assert "is back" in ended.notes()
    assert newest_checkpoint(tmp_path)["learner"]["episode"] == 700


def test_the_embedded_server_is_started_again_when_it_dies(tmp_path: Path) -> None:
    """Killing the worker's own server only makes it start another."""
    worker = LiveWorker("--episodes", 700, "--run-dir", tmp_path, "--reconnect-s", PATIENCE_S)
    worker.wait_for("metrics")
    [server] = psutil.Process(worker.process.pid).children()
    server.kill()
    ended = worker.finish()
    assert ended.code == 0, ended.stderr
    assert "is back" in ended.notes()


def test_the_embedded_server_listens_on_loopback_only_and_dies_with_its_worker() -> None:
    """No other machine can reach it, there is no admin page, and no process is left over."""
    server = EmbeddedServer()
    server.start()
    process = psutil.Process(server._process.pid)  # type: ignore[union-attr]
    listening = [c.laddr for c in process.net_connections() if c.status == "LISTEN"]
    assert listening
    assert {address.ip for address in listening} == {"127.0.0.1"}
    assert 9090 not in {address.port for address in listening}
    assert process.children(recursive=True) == []
    assert server._process is not None
    assert server._process.stdin is not None
    server._process.stdin.close()
    wait_until(lambda: not server.alive)
    assert not server._folder.exists(), "its key is gone with it"
    server.stop()


def test_sigterm_saves_a_checkpoint_and_exits_143(tmp_path: Path) -> None:
    """Cancelled in the middle: terminated, 143, and nothing learned is lost."""
    worker = LiveWorker("--episodes", 100000, "--run-dir", tmp_path, "--checkpoint-every", 0)
    worker.wait_for("metrics")
    children = psutil.Process(worker.process.pid).children(recursive=True)
    worker.terminate()
    ended = worker.finish()
    assert ended.code == 143
    assert ended.last["reason"] == "terminated"
    assert newest_checkpoint(tmp_path)["learner"]["episode"] > 0
    wait_until(lambda: not any(child.is_running() for child in children))


def test_a_stopped_and_resumed_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    """Table, random numbers, statistics and beliefs are the same to the last bit."""
    common = ["--episodes", 200, "--checkpoint-every", 0]
    assert run_worker(*common, "--run-dir", tmp_path / "whole").code == 0
    assert run_worker(*common, "--stop-at", 90, "--run-dir", tmp_path / "part").code == 0
    assert newest_checkpoint(tmp_path / "part")["learner"]["episode"] == 90
    resumed = run_worker(*common, "--mode", "resume_training", "--run-dir", tmp_path / "part")
    assert resumed.code == 0, resumed.stderr
    assert newest_checkpoint(tmp_path / "part") == newest_checkpoint(tmp_path / "whole")


def test_the_marks_of_a_resumed_run_are_counted_from_where_it_begins(tmp_path: Path) -> None:
    """`every:50` keeps the episodes 50 and 100, not the first one after a resume at 60."""
    common = ["--episodes", 120, "--checkpoint-every", 0, "--keep-checkpoints", "every:50"]
    part, rest = tmp_path / "part", tmp_path / "rest"
    stopped = run_worker(*common, "--stop-at", 60, "--run-dir", part)
    assert stopped.code == 0, stopped.stderr
    resumed = run_worker(
        *common, "--mode", "resume_training", "--checkpoint-path", part / "checkpoints",
        "--run-dir", rest,
    )  # fmt: skip
    assert resumed.code == 0, resumed.stderr
    assert _kept_episodes(part) == [50, 60]
    assert _kept_episodes(rest) == [100, 120]


def _kept_episodes(run_dir: Path) -> list[int]:
    files = (run_dir / "checkpoints").glob("full-*.json")
    return sorted(int(path.stem.removeprefix("full-")) for path in files)


def test_agents_learn_a_minigrid(tmp_path: Path) -> None:
    """A world without a transition table is learned step by step all the same."""
    run = run_worker(
        "--env-id", "MiniGrid-Empty-5x5-v0", "--episodes", 150, "--epsilon-end", 0.02,
        "--alpha", 0.5, "--alpha-end", 0.2, "--report-every", 0, "--run-dir", tmp_path,
    )  # fmt: skip
    assert run.code == 0, run.stderr
    graded = run_worker(
        "--env-id", "MiniGrid-Empty-5x5-v0", "--mode", "policy_eval", "--eval-episodes", 2,
        "--policy-path", tmp_path / "checkpoints/policy.json", "--run-dir", tmp_path / "eval",
    )  # fmt: skip
    assert graded.last["summary"]["success_rate"] == 1.0


def test_a_stranger_on_the_embedded_server_is_not_heard() -> None:
    """Any program of the machine may log in there; only the coach's word reaches the learner."""

    async def whisper() -> list[str]:
        server = EmbeddedServer()
        await asyncio.to_thread(server.start)
        place = "127.0.0.1", server.port
        mind = Mind(lambda: 0.5)
        learner = LearnerAgent("l@localhost", "x", find_plan("balanced"), *place, mind)
        learner.only_from = "coach@localhost"
        agents = [learner] + [
            CoachAgent(f"{name}@localhost", "x", find_plan("coach"), *place)
            for name in ("stranger", "coach")
        ]
        for agent in agents:
            await agent.connect(register=True)
        await agents[1].say("l@localhost", "tell", "advice(retreat)")
        await agents[2].say("l@localhost", "tell", "advice(exploit)")
        # Both have arrived before anything is judged, in whatever order.
        while learner.bdi.heard == 0 or learner.bdi.ignored == 0:
            await asyncio.sleep(0.01)
        learner.mind.run()
        for agent in agents:
            await agent.stop()
        await asyncio.to_thread(server.stop)
        return mind.own_beliefs()

    assert asyncio.run(whisper()) == ['advice(exploit)[source("coach@localhost")]']


def test_an_idle_agent_sleeps() -> None:
    """An agent without messages goes through no reasoning cycles at all."""

    async def watch() -> tuple[int, int, int]:
        server = EmbeddedServer()
        await asyncio.to_thread(server.start)
        agent = CoachAgent("c@localhost", "x", find_plan("coach"), "127.0.0.1", server.port)
        await agent.connect(register=True)
        while not agent.bdi.asleep:
            await asyncio.sleep(0.01)
        before = agent.bdi.cycles
        # Turns of the event loop, not seconds: a restless agent uses every one of them.
        for _ in range(1000):
            await asyncio.sleep(0)
        idle = agent.bdi.cycles
        await agent.say("c@localhost", "tell", "report(1, 0.5, 0.6)")
        while agent.bdi.heard == 0:
            await asyncio.sleep(0.01)
        after = agent.bdi.cycles
        await agent.stop()
        await asyncio.to_thread(server.stop)
        return before, idle, after

    before, idle, after = asyncio.run(watch())
    assert idle == before
    assert after > idle
