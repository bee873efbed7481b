"""The worker under a real daemon: pause, cancel, continue, evaluate."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import harness
from support.patience import TIME_TO_SAVE
from support.trainer import Trainer, until

FAULTS = Path(__file__).parent / "faults"
ENDLESS = 1_000_000_000


def _config(**fields: Any) -> dict[str, Any]:
    document = {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": ENDLESS, **fields}
    worker = {"type": "cleanrl", "config": document}
    return {"artifacts": {}, "metadata": {"worker": worker}}


def _submit(trainer: Trainer, **fields: Any) -> str:
    return str(trainer.client.submit(_config(**fields)).run_id)


def _progress(trainer: Trainer, run_id: str, beyond: int = 0) -> int:
    def step() -> int:
        reached = trainer.client.get(run_id).progress.step
        return reached if reached > beyond else 0

    return int(until(step, "training goes on"))


def _newest_checkpoint(trainer: Trainer, run_id: str) -> int:
    saved = trainer.client.get(run_id).checkpoints
    return max((item.step for item in saved if item.kind == "full"), default=0)


def test_a_checkpoint_on_request_arrives_and_continues(
    make_trainer: Callable[..., Trainer],
) -> None:
    """`checkpoint` saves a live run, also a paused one, and a later run continues from it."""
    trainer = make_trainer(warm_start="true", grace_s=TIME_TO_SAVE).start()
    extras = {"minimal_telemetry": True, "checkpoint_interval_s": 0}
    run_id = _submit(trainer, extras=extras)
    reached = _progress(trainer, run_id)
    assert _newest_checkpoint(trainer, run_id) == 0
    _save(trainer, run_id)
    saved = _newest_checkpoint(trainer, run_id)
    assert saved >= reached
    _progress(trainer, run_id, beyond=saved)

    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    _save(trainer, run_id)
    newest = _newest_checkpoint(trainer, run_id)
    assert newest > saved
    trainer.kill()
    trainer.start()
    assert trainer.client.get(run_id).state == "PAUSE"
    trainer.client.cancel(run_id, grace_s=0)
    trainer.ended(run_id)

    resume = {"mode": "resume_training", "checkpoint_path": f"{trainer.home.run_dir(run_id)}"}
    second = _submit(trainer, extras={**extras, **resume})
    assert _progress(trainer, second) > newest
    trainer.client.cancel(second, grace_s=0)
    trainer.ended(second)


def _save(trainer: Trainer, run_id: str) -> None:
    version = trainer.client.checkpoint(run_id).version

    def answered() -> bool:
        kinds = [event.kind for event in trainer.client.events(run_id, after=version)]
        assert "checkpoint_refused" not in kinds
        return "checkpoint_confirmed" in kinds

    until(answered, "the run saves")


def test_pause_continue_cancel_resume_evaluate(make_trainer: Callable[..., Trainer]) -> None:
    """One life of a run: each stop saves, nothing is repeated, the policy can be judged."""
    trainer = make_trainer(warm_start="true", grace_s=TIME_TO_SAVE).start()
    first = _submit(trainer, extras={"minimal_telemetry": True})
    saved_at_pause = _pause_and_continue(trainer, first)
    cancelled_at = _cancel(trainer, first, saved_at_pause)
    second = _continue_to_the_end(trainer, first, cancelled_at)
    _judge(trainer, second)
    _judge_until_cancelled(trainer, second)


def _pause_and_continue(trainer: Trainer, run_id: str) -> int:
    """A pause saves at least what was reported, and training continues after it."""
    reached = _progress(trainer, run_id)
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    saved = int(until(lambda: _newest_checkpoint(trainer, run_id), "the pause saves"))
    assert saved >= reached
    trainer.client.resume(run_id)
    trainer.wait_for(run_id, "EXEC")
    _progress(trainer, run_id, beyond=saved)
    return saved


def _cancel(trainer: Trainer, run_id: str, saved_before: int) -> int:
    """A cancel saves once more; summaries and manifest are there. Returns the saved step."""
    trainer.client.cancel(run_id)
    ended = trainer.wait_for(run_id, "TERM")
    assert ended.outcome == "cancelled"
    told = [item for batch in trainer.client.episodes(run_id) for item in batch.episodes]
    assert {item.outcome for item in told} == {"summary"}, "minimal telemetry is summaries"
    assert saved_before < sum(item.length for item in told) <= ended.progress.step
    run_dir = Path(ended.run_dir)
    saved = int(harness.newest_state(run_dir)["step"])
    assert saved > saved_before
    assert json.loads((run_dir / "analytics.json").read_text())["artifacts"]["checkpoints"]
    return saved


def _continue_to_the_end(trainer: Trainer, parent: str, saved: int) -> str:
    """A run that resumes another completes the steps that were left."""
    extras = {"mode": "resume_training", "checkpoint_path": str(trainer.home.run_dir(parent))}
    run_id = _submit(trainer, total_timesteps=saved + 2048, extras=extras)
    assert trainer.wait_for(run_id, "TERM").outcome == "completed"
    assert harness.newest_state(trainer.home.run_dir(run_id))["step"] > saved
    return run_id


def _judge(trainer: Trainer, trained: str) -> None:
    """An evaluation reports what its summary file says, one step an episode."""
    policy = str(trainer.home.run_dir(trained))
    extras = {"mode": "policy_eval", "policy_path": policy, "eval_episodes": 5}
    worker = {"type": "cleanrl", "config": {"extras": extras}}
    submitted = trainer.client.submit({"artifacts": {}, "metadata": {"worker": worker}})
    run_id = str(submitted.run_id)
    judged = trainer.wait_for(run_id, "TERM")
    assert judged.outcome == "completed"
    summary = json.loads((trainer.home.run_dir(run_id) / "eval_summary.json").read_text())
    assert judged.metrics["episodic_return"] == pytest.approx(summary["mean"])
    assert judged.progress.step == judged.progress.total == 5


def _judge_until_cancelled(trainer: Trainer, trained: str) -> None:
    """An endless evaluation pauses, continues and ends when asked."""
    policy = str(trainer.home.run_dir(trained))
    extras = {"mode": "policy_eval", "policy_path": policy, "repeat": True}
    run_id = _submit(trainer, total_timesteps=None, extras=extras)
    _progress(trainer, run_id)
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    trainer.client.resume(run_id)
    trainer.wait_for(run_id, "EXEC")
    trainer.client.cancel(run_id)
    assert trainer.wait_for(run_id, "TERM").outcome == "cancelled"


def test_p13_grace_is_honoured_while_a_checkpoint_is_being_saved(
    make_trainer: Callable[..., Trainer],
) -> None:
    """A cancel in the middle of a slow save waits for it, and the checkpoint is valid."""
    trainer = make_trainer(grace_s=TIME_TO_SAVE)
    path = os.pathsep.join([str(FAULTS), trainer.environment()["PYTHONPATH"]])
    trainer.start(PYTHONPATH=path, WORKER_TEST_SLOW_SAVE_S="2")
    run_id = _submit(trainer)
    _progress(trainer, run_id)
    cancelled_at = time.time()
    trainer.client.cancel(run_id)
    record = trainer.wait_for(run_id, "TERM")
    assert record.outcome == "cancelled"
    assert record.exit_code == 143
    assert record.finished_at - cancelled_at >= 2.0, "the save was not slow: nothing was proven"
    newest = harness.newest_state(Path(record.run_dir))
    assert newest["step"] == record.checkpoints[-1].step > 0
    assert not list(Path(record.run_dir).glob("checkpoints/.*"))


def test_a_script_is_paused_and_cancelled_as_a_whole(
    make_trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    """Pause stops every process of the script, cancel ends them, phases are in the event log."""
    script = tmp_path / "phases.sh"
    script.write_text(
        "# @phases one\n"
        "python -m cleanrl_worker.cli --algo ppo --env-id CartPole-v1 "
        f'--total-timesteps {ENDLESS} --run-dir "$MOSAIC_RUN_DIR/one"\n'
    )
    trainer = make_trainer(grace_s=TIME_TO_SAVE).start()
    extras = {"mode": "script", "script_path": str(script)}
    run_id = _submit(trainer, algo="", env_id="", total_timesteps=None, extras=extras)
    _progress(trainer, run_id)
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    stopped = trainer.client.get(run_id).progress.step
    trainer.client.resume(run_id)
    _progress(trainer, run_id, beyond=stopped)
    assert "phase_started" in str(trainer.client.events(run_id))
    trainer.client.cancel(run_id)
    assert trainer.wait_for(run_id, "TERM").outcome == "cancelled"
    assert harness.newest_state(trainer.home.run_dir(run_id) / "one")["step"] > 0


def _judge_of(trainer: Trainer, run_id: str) -> psutil.Process:
    """The process that evaluates beside a run's training, once it is there."""
    worker = psutil.Process(trainer.client.get(run_id).pid)

    def found() -> psutil.Process | None:
        for process in worker.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "cleanrl_worker.programs.evaluate_beside" in process.cmdline():
                    return process
        return None

    judge = until(found, "the evaluation beside training")
    assert isinstance(judge, psutil.Process)
    return judge


def test_pausing_a_run_holds_its_evaluation_too(make_trainer: Callable[..., Trainer]) -> None:
    """A paused run uses no processor at all, a resumed one is judged again, a cancelled one
    leaves no evaluation behind."""
    trainer = make_trainer(warm_start="true", grace_s=TIME_TO_SAVE).start()
    # So many episodes that the first evaluation lasts as long as the test.
    judged = {"eval_every": 2048, "eval_episodes": 100_000, "eval_videos": False}
    run_id = _submit(trainer, extras={"minimal_telemetry": True, "algo_params": judged})
    _progress(trainer, run_id)
    judge = _judge_of(trainer, run_id)
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    # A process is stopped where it next leaves the kernel, which may be a moment later.
    until(lambda: judge.status() == psutil.STATUS_STOPPED, "the evaluation is held")
    used = sum(judge.cpu_times()[:2])
    time.sleep(0.3)
    assert sum(judge.cpu_times()[:2]) == used
    trainer.client.resume(run_id)
    trainer.wait_for(run_id, "EXEC")
    until(lambda: sum(judge.cpu_times()[:2]) > used, "the evaluation continues")
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    # Cancelled out of a pause, where a process that is held could not hear it.
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).outcome == "cancelled"
    assert not judge.is_running()


def test_an_interactive_session_is_refused_by_the_queue(trainer: Trainer) -> None:
    """With the command that starts one."""
    problems = trainer.client.validate(_config(extras={"mode": "interactive"}))
    assert any("--interactive" in problem.message for problem in problems)
