"""SPADE-BDI runs under a real daemon: telemetry, beliefs, pause, kills, replay, secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.bdi import newest_checkpoint
from support.trainer import Trainer, until

from mosaic.telemetry.replay import read_episode
from spade_bdi_rl_worker.worlds import World


def spade(episodes: int, **extras: Any) -> dict[str, Any]:
    """A job of the worker."""
    config = {
        "env_id": "FrozenLake-v1",
        "seed": 4,
        "extras": {"episodes": episodes, "env_kwargs": {"is_slippery": False}, **extras},
    }
    return {"artifacts": {}, "metadata": {"worker": {"type": "spade_bdi", "config": config}}}


def test_a_run_learns_and_is_replayed_step_by_step_with_its_beliefs(trainer: Trainer) -> None:
    """Every step of every episode is stored with frame, beliefs, intention and decision."""
    run_id = trainer.client.submit(spade(200)).run_id
    ended = trainer.ended(run_id)
    assert ended.outcome == "completed", ended.reason
    episodes = [e for b in trainer.client.episodes(run_id) for e in b.episodes]
    assert [e.episode for e in episodes] == list(range(200))
    assert episodes[-1].outcome == "won"
    steps = read_episode(Path(ended.run_dir), 199)
    assert len(steps) == episodes[-1].length
    assert sum(s.reward for s in steps) == episodes[-1].total_reward
    for step in steps:
        assert step.frame.startswith(b"\x89PNG")
        assert f"state({step.observation})" in step.info["beliefs"]
        assert step.info["decision"] in ("explore", "exploit", "retreat")
        assert step.info["intention"].startswith("!act by @")
    again = World("FrozenLake-v1", 4, kwargs={"is_slippery": False}, frames=True)
    again.reset(199)
    assert again.seed_of(199) == episodes[-1].seed
    for step in steps:
        move = again.step(step.action)
        assert (move.seen, move.reward, again.picture()) == (
            step.observation, step.reward, step.frame,
        )  # fmt: skip
    again.close()
    assert any(belief.startswith("advice(") for belief in steps[0].info["beliefs"])


def test_killing_the_daemon_costs_no_step_of_a_run(trainer: Trainer) -> None:
    """The agents go on learning without a daemon; the next one has every step."""
    run_id = trainer.client.submit(spade(400, frames=False)).run_id
    trainer.wait_for(run_id, "EXEC")
    until(lambda: trainer.client.get(run_id).progress.step > 0, "the run makes progress")
    trainer.restart()
    ended = trainer.ended(run_id)
    assert ended.outcome == "completed", ended.reason
    episodes = [e for b in trainer.client.episodes(run_id) for e in b.episodes]
    assert [e.episode for e in episodes] == list(range(400))
    steps = [s.seq for b in trainer.client.steps(run_id) for s in b.steps]
    assert steps == list(range(1, sum(e.length for e in episodes) + 1))


def test_pause_holds_the_agents_and_cancel_keeps_what_they_learned(trainer: Trainer) -> None:
    """Paused at a safe point with a checkpoint; cancelled with the newest one complete."""
    run_id = trainer.client.submit(spade(1_000_000, frames=False)).run_id
    trainer.wait_for(run_id, "EXEC")
    until(lambda: trainer.client.get(run_id).progress.step > 0, "the run makes progress")
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    run_dir = trainer.home.run_dir(run_id)
    held = newest_checkpoint(run_dir)["learner"]["episode"]
    trainer.client.resume(run_id)
    trainer.wait_for(run_id, "EXEC")
    until(lambda: trainer.client.get(run_id).progress.step > held, "the run goes on")
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).outcome == "cancelled"
    assert newest_checkpoint(run_dir)["learner"]["episode"] > held


def test_a_plan_with_a_mistake_is_refused_with_its_place(trainer: Trainer, tmp_path: Path) -> None:
    """There is no run: the refusal names the line and column, before any agent starts."""
    plan = tmp_path / "mine.asl"
    plan.write_text("+!act <- .exploit.\n+!act : epsilon( <- .explore.\n")
    (problem,) = trainer.client.validate(spade(10, plan=str(plan)))
    assert "mine.asl:2:18" in problem.message


def test_a_wrong_setting_is_refused_before_there_is_a_run(trainer: Trainer) -> None:
    """The daemon asks the worker about its settings at submission."""
    problems = trainer.client.validate(spade(10, plann="balanced", alpha=7.0))
    text = " ".join(problem.message for problem in problems)
    assert "did you mean 'plan'" in text
    assert "alpha must be between" in text


def test_the_password_is_kept_out_of_every_file(trainer: Trainer) -> None:
    """The JID's password reaches the worker and no file of the run or the daemon."""
    canary = "canary-7f3a91"
    job = spade(5, jid="kim@localhost", password=canary, xmpp_host="127.0.0.1", xmpp_port=1)
    run_id = trainer.client.submit(job).run_id
    ended = trainer.ended(run_id)
    assert "no XMPP server answers at 127.0.0.1:1" in ended.reason
    holders = [
        path
        for path in trainer.home.root.rglob("*")
        if path.is_file() and canary.encode() in path.read_bytes()
    ]
    assert [path.parent for path in holders] == [trainer.home.secrets]


def test_a_headless_run_tells_summaries_only(trainer: Trainer) -> None:
    """The fast mode shows that it lives without a record a step."""
    run_id = trainer.client.submit(spade(5000, headless=True)).run_id
    ended = trainer.ended(run_id)
    assert ended.outcome == "completed", ended.reason
    assert [s for b in trainer.client.steps(run_id) for s in b.steps] == []
    told = [e for b in trainer.client.episodes(run_id) for e in b.episodes]
    assert {e.outcome for e in told} == {"summary"}
    assert sum(json.loads(e.info_json)["episodes"] for e in told) >= 5000
    assert told[-1].episode >= 5000
