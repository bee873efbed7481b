"""Following runs: pushed by the daemon, over its restarts, and never for longer than asked."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

from mosaic.client import TrainerClient
from mosaic.errors import DaemonNotRunningError, RunNotFoundError
from mosaic.records import RunRecord, RunRemoved, RunUpdated, SnapshotEnd, State


class _Background:
    """Something that blocks, on a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._found: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._found.append(work())
        except Exception as error:
            self._found.append(error)

    def result(self) -> Any:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self._found[0]


def test_following_shows_every_state_without_asking(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is seen from its present state to its end, and the client calls the daemon once."""
    run_id = trainer.submit("short")
    with TrainerClient.connect(trainer.home) as client:
        asked: list[str] = []
        unary = client._calls.unary

        def counting(method: str, *rest: Any) -> Any:
            asked.append(method)
            return unary(method, *rest)

        monkeypatch.setattr(client._calls, "unary", counting)
        seen = list(client.follow(run_id))
    assert asked == []
    assert [record.version for record in seen] == sorted(record.version for record in seen)
    assert seen[-1].ended
    assert State.EXEC in {record.state for record in seen}
    assert all(isinstance(record, RunRecord) and record.run_id == run_id for record in seen)


@pytest.mark.parametrize("how", ["kill -9", "SIGTERM"])
def test_waiting_survives_a_restart_of_the_daemon(trainer: Trainer, how: str) -> None:
    """Who waits for a run gets its end, although the daemon died and came back meanwhile."""
    run = trainer.stepping()
    client = TrainerClient.connect(trainer.home)
    waiting = _Background(lambda: client.wait(run.run_id))
    if how == "kill -9":
        trainer.restart()
    else:
        trainer.client.shutdown("leave")
        trainer.wait_for_death()
        trainer.start()
    trainer.client.cancel(run.run_id, grace_s=5)
    ended = waiting.result()
    client.close()
    assert isinstance(ended, RunRecord), ended
    assert ended.ended
    assert ended.outcome == "cancelled"


def test_a_daemon_that_stays_away_is_reported(trainer: Trainer) -> None:
    """Who waits is told within the bound that there is no daemon, and that the run continues."""
    run = trainer.stepping()
    client = TrainerClient.connect(trainer.home)
    waiting = _Background(lambda: list(client.follow(run.run_id, patience_s=0.5)))
    trainer.kill()
    error = waiting.result()
    client.close()
    assert isinstance(error, DaemonNotRunningError)
    assert "not back within 0.5 s" in str(error)
    assert "mosaic up" in str(error)
    trainer.start()
    trainer.client.cancel(run.run_id, grace_s=5)
    trainer.ended(run.run_id)


def test_waiting_ends_when_time_is_up(trainer: Trainer) -> None:
    """A limit is kept, and the error says what the run does instead."""
    run = trainer.stepping()
    with pytest.raises(TimeoutError, match=f"within 0.5 s: {run.run_id} is EXEC"):
        trainer.client.wait(run.run_id, timeout_s=0.5)
    trainer.client.cancel(run.run_id, grace_s=5)
    assert trainer.client.wait(run.run_id, timeout_s=60).ended


def test_only_the_chosen_runs_are_watched(trainer: Trainer) -> None:
    """A watcher of one run hears nothing of others, and learns that it was deleted."""
    mine, other = trainer.submit("short"), trainer.submit("short")
    for run_id in (mine, other):
        trainer.ended(run_id)
    changes = trainer.client.watch(run_ids=[mine])
    first = next(changes)
    assert isinstance(first, RunUpdated)
    assert first.run.run_id == mine
    assert isinstance(next(changes), SnapshotEnd)
    trainer.client.update(other, notes="changed")
    trainer.client.update(mine, notes="changed too")
    second = next(changes)
    assert isinstance(second, RunUpdated)
    assert (second.run.run_id, second.run.notes) == (mine, "changed too")
    trainer.client.delete(mine)
    gone = next(changes)
    assert isinstance(gone, RunRemoved)
    assert gone.run_id == mine
    changes.close()


def test_a_deleted_run_is_not_waited_for(trainer: Trainer) -> None:
    """Waiting for a run that is not there, or no more, ends at once with its id."""
    with pytest.raises(RunNotFoundError):
        trainer.client.wait("01ZZZZ")
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    trainer.client.delete(run_id)
    with pytest.raises(RunNotFoundError, match=run_id):
        trainer.client.wait(run_id)
