"""Every kind of run has one builder: what it makes is what the daemon stores and runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mosaic.config import build
from mosaic.config.flags import as_words, read_flags
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError
from mosaic.records import RunRecord
from mosaic.records.run import CheckpointRecord

BEFORE = {
    "artifacts": {"wandb": {"enabled": True}},
    "metadata": {
        "worker": {
            "type": "cleanrl",
            "config": {
                "run_id": "${RUN_ID}",
                "algo": "ppo",
                "env_id": "CartPole-v1",
                "seed": 7,
                "total_timesteps": 100,
                "extras": {
                    "use_cuda": True,
                    "wandb_api_key": "secret://wandb_api_key",
                    "algo_params": {"num_envs": 2, "stop_at": 50},
                    "ent_coef": 0.02,
                },
            },
        },
        "tags": ["mine"],
    },
}


def _run(*kinds: str) -> RunRecord:
    saved = tuple(
        CheckpointRecord(path=f"checkpoints/{kind}", step=1, sha256="", kind=kind, saved_at=0.0)
        for kind in kinds
    )
    return RunRecord(
        run_id="01", run_name="r", worker="w", algo="ppo", env_id="E", run_dir="/d",
        checkpoints=saved,
    )  # fmt: skip


def test_a_document_of_an_earlier_version_is_read_and_built_upon() -> None:
    """Older names are read, references to secrets stay, and nothing that was given is lost."""
    before = build.read_config(json.dumps(BEFORE))
    assert before.worker.extras.cuda
    again = build.clone(before, seed=8, name="again")
    assert (again.worker.seed, again.run_name) == (8, "again")
    assert again.worker.parameters == {"num_envs": 2, "stop_at": 50, "ent_coef": 0.02}
    assert again.worker.extras.wandb_api_key == "secret://wandb_api_key"
    assert build.clone(before) == before


def test_resume_continues_with_what_was_before() -> None:
    """Parameters are kept but for the old stop; another algorithm or no checkpoint is refused."""
    before = build.read_config(BEFORE)
    config = build.resume(before, _run("full"), total_timesteps=300, parameters={"num_envs": 4})
    assert config.worker.extras.mode == "resume_training"
    assert config.worker.extras.checkpoint_path == "/d/checkpoints"
    assert config.worker.parameters == {"num_envs": 4, "ent_coef": 0.02}
    assert (config.worker.seed, config.worker.total_timesteps) == (7, 300)
    assert config.metadata.tags == ["mine"]
    with pytest.raises(InvalidConfigError, match="trained with ppo, not dqn"):
        build.resume(before, _run("full"), algo="dqn")
    with pytest.raises(InvalidConfigError, match="by the worker w, not by spade_bdi"):
        build.resume(before, _run("full"), worker="spade_bdi")
    with pytest.raises(InvalidConfigError, match="no checkpoint to continue from"):
        build.resume(before, _run("policy"))


def test_a_run_without_a_policy_is_not_evaluated_unless_a_file_is_named() -> None:
    """The same rule for the command line, sweeps and the window."""
    with pytest.raises(InvalidConfigError, match="saved no policy"):
        build.evaluate(_run("full"))
    assert build.evaluate(_run("policy")).worker.extras.policy_path == "/d/checkpoints"
    own = build.evaluate(None, worker="w", policy="/p/x.cleanrl_model", algo="ppo", env_id="E")
    assert (own.run_name, own.metadata.worker.type) == ("eval of x.cleanrl_model", "w")


def test_the_policy_of_a_script_says_its_algorithm_itself() -> None:
    """A script's run is called after its mode; that is no algorithm to play with."""
    phases = replace(_run("policy"), algo="script", env_id="", mode="script")
    assert build.evaluate(phases).worker.algo == ""
    assert build.evaluate(_run("policy")).worker.algo == "ppo"


def test_a_script_is_named_after_its_file_and_says_how_long_it_takes(tmp_path: Path) -> None:
    """Wherever it was started from."""
    path = tmp_path / "rooms.sh"
    path.write_text("# @total_timesteps 2_000\n")
    config = build.script("w", path)
    assert (config.run_name, config.worker.algo) == ("rooms", "script")
    assert (config.worker.extras.mode, config.worker.total_timesteps) == ("script", 2000)
    path.write_text("# @total_timesteps many\n")
    assert build.script("w", path).worker.total_timesteps is None


def test_a_game_writes_no_tensorboard() -> None:
    """There is nothing to draw."""
    config = build.play("human", "CartPole-v1", fps=5, env_kwargs={"a": 1})
    assert not config.artifacts.tensorboard.enabled
    assert config.worker.extras.own == {"fps": 5.0, "env_kwargs": {"a": 1}}


def test_what_is_built_wrongly_is_refused_with_the_daemons_pointers() -> None:
    """Before anything is sent, all problems at once."""
    with pytest.raises(InvalidConfigError) as refused:
        build.train(build.Worker("w"), "a", seed=-1, extras={"gamma": 2.0, "mode": "tran"})
    pointers = {problem.pointer for problem in refused.value.problems}
    base = "/metadata/worker/config"
    assert pointers == {f"{base}/seed", f"{base}/extras/gamma", f"{base}/extras/mode"}


def test_parameters_of_a_worker_that_declares_none_are_its_own_extras() -> None:
    """They are where the worker looks for them."""
    plain = build.train(build.Worker("w", declares=False), "a", parameters={"x": 1})
    assert plain.worker.extras.own == {"x": 1}
    declared = build.train(build.Worker("w"), "a", parameters={"x": 1})
    assert declared.worker.extras.algo_params == {"x": 1}


def test_the_worker_is_told_what_the_rest_implies() -> None:
    """Reserved GPUs are used, artifacts are switches of the worker, its own word wins."""
    wishes = build.Wishes(gpus=1, tensorboard=False, keep_checkpoints=9)
    config = build.train(build.Worker("w"), "a", extras={"track_wandb": True}, wishes=wishes)
    fields = config.worker_document(config.worker.model_dump(exclude_unset=True), "ID")
    assert fields["run_id"] == "ID"
    assert fields["extras"] == {
        "tensorboard_enabled": False, "track_wandb": True, "keep_checkpoints": 9, "cuda": True,
        "algo_params": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 8), ("float", 1e-3), ("bool", False), ("bool", True), ("str", "a b"),
     ("float | None", None), ("int", -5), ("str", "--x")],
)  # fmt: skip
def test_a_value_survives_the_way_through_flags(kind: str, value: object) -> None:
    """What is written as words is read as the same value."""
    words = as_words("some_name", value)  # type: ignore[arg-type]
    assert read_flags(words, {"some_name": kind}, "it") == ({"some_name": value}, [])


def test_the_document_is_all_there_is() -> None:
    """A configuration goes to JSON and back without change; what was not given stays so."""
    config = build.any_worker(build.Worker("w"), {"total_timesteps": 2})
    text = json.dumps(config.document())
    assert TrainRunConfig.model_validate_json(text) == config
    assert "gamma" not in text
