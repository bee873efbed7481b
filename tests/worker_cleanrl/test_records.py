"""What a run writes down about itself: events in order, provenance, metrics."""

from __future__ import annotations

import json
from pathlib import Path

from support import harness


def test_a_run_tells_its_life_in_order_and_where_it_comes_from(tmp_path: Path) -> None:
    """run_started first, run_completed last, dense numbers; provenance names code and wrappers."""
    run_dir = tmp_path / "run"
    arguments = ("--algo", "dqn", "--env-id", "CartPole-v1", "--total-timesteps", "1000")
    worker = harness.run(run_dir, *arguments, "--seed", "4")
    events = worker.events()
    assert events[0]["event"] == "run_started"
    assert (events[0]["algo"], events[0]["total"]) == ("dqn", 1000)
    assert events[-1] | {"at": 0} == events[-1] | {"at": 0, "event": "run_completed"}
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    provenance = json.loads((run_dir / "provenance.json").read_text())
    assert provenance["seeds"] == {"seed": 4}
    assert provenance["packages"]["torch"]
    assert provenance["environment"]["id"] == "CartPole-v1"
    assert "CartPoleEnv" in provenance["environment"]["wrappers"]
    assert provenance["environment"]["action_space"] == "Discrete(2)"


def test_atari_runs_name_their_rom(tmp_path: Path) -> None:
    """A score means little without the ROM it was played on."""
    run_dir = tmp_path / "run"
    harness.run(run_dir, "--algo", "ppo_atari", "--env-id", "ALE/Pong-v5", "--", "--smoke")
    environment = json.loads((run_dir / "provenance.json").read_text())["environment"]
    assert environment["rom"] == "pong.bin"
    assert len(environment["rom_sha256"]) == 64
