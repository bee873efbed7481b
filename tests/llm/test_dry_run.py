"""A dry run of a training that names a run: the run is found as it would be when submitted."""

import subprocess
import sys

import pytest
from support.trainer import Trainer

from mosaic.config import build

ENV = "BabyAI-GoToObj-v0"
WORKER = build.Worker("llm", "llm_worker.cli")


def _dry_run(trainer: Trainer, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mosaic", "train", *words, "--env-id", ENV, "--dry-run"],
        env=trainer.environment(MOSAIC_HOME=str(trainer.home.root)),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_dry_run_finds_the_run_that_is_named(trainer: Trainer) -> None:
    """`last` is the newest run: one without a model is refused by its own id."""
    parameters = {"model": "bot", "episodes": 1, "frames": False}
    config = build.train(WORKER, "llm", env_id=ENV, parameters=parameters)
    run_id = trainer.client.submit(config).run_id
    assert trainer.ended(run_id).completed
    begun = _dry_run(trainer, "llm_grpo", "--start-from", "last")
    assert (begun.returncode, f"{run_id} has no model" in begun.stdout) == (2, True), begun


@pytest.mark.prove
def test_a_dry_run_begins_with_the_model_of_the_last_run(trainer: Trainer) -> None:
    """What `llm_bc` has made is what `llm_grpo --start-from last` would improve.

    The same for what is imitated; a name that no run has is refused.
    """
    parameters = {"model": "bot", "episodes": 1, "frames": False}
    config = build.train(WORKER, "llm", env_id=ENV, parameters=parameters)
    played = trainer.ended(trainer.client.submit(config).run_id)
    imitated = _dry_run(trainer, "llm_bc", "--recorded", "last", "--bot-episodes", "0")
    assert (imitated.returncode, played.run_id in imitated.stdout) == (0, True), imitated
    parameters = {"updates": 2, "batch": 8, "bot_episodes": 4, "eval_episodes": 0}
    small = {"width": 16, "layers": 1, "hidden": 16}
    config = build.train(WORKER, "llm_bc", env_id=ENV, parameters={**parameters, **small})
    run = trainer.ended(trainer.client.submit(config).run_id)
    assert run.completed, run.reason
    begun = _dry_run(trainer, "llm_grpo", "--start-from", "last")
    assert (begun.returncode, "beginning with model.gguf" in begun.stdout) == (0, True), begun
    nothing = _dry_run(trainer, "llm_bc", "--recorded", "nowhere")
    assert (nothing.returncode, "there is no run nowhere" in nothing.stdout) == (2, True), nothing
