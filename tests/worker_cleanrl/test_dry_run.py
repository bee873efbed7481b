"""The dry run: everything is checked, in every mode, and nothing is launched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import harness

from cleanrl_worker import foresight
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.resolution import resolve
from mosaic.config.json_types import JsonValue


def _dry(
    tmp_path: Path, document: dict[str, object], **environment: str
) -> tuple[int, dict[str, object]]:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(document))
    arguments = ("--config", str(config), "--dry-run", "--emit-summary")
    worker = harness.start(tmp_path / "run", *arguments, **environment)
    code = worker.wait()
    return code, json.loads(worker.output.read_text())


def test_the_command_is_exact_and_both_shapes_of_a_config_give_the_same(tmp_path: Path) -> None:
    """What is shown is what would be started, from the nested and from the flat shape."""
    flat = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "total_timesteps": 5000,
        "seed": 3,
        "extras": {"algo_params": {"num_envs": 8, "anneal_lr": False}, "ent_coef": 0.02},
    }
    nested = {"artifacts": {}, "metadata": {"worker": {"type": "cleanrl", "config": flat}}}
    code, summary = _dry(tmp_path, flat)
    assert code == 0
    assert _dry(tmp_path, nested) == (code, summary)
    command = " ".join(summary["command"])
    assert "-m cleanrl_worker.launcher cleanrl_worker.cleanrl.ppo" in command
    for words in ("--seed 3", "--num-envs 8", "--no-anneal-lr", "--ent-coef 0.02", "--no-cuda"):
        assert words in command
    assert not (tmp_path / "run").exists()


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """Names, types, ranges, environment, sets: each with its place and the nearest name."""
    code, summary = _dry(
        tmp_path,
        {
            "algo": "dqn",
            "env_id": "Pendulum-v1",
            "extras": {
                "algo_params": {"learning_rat": 0.1, "gamma": 2, "buffer_size": "many"},
                "tau": True,
                "requirements": ["atary"],
            },
        },
    )
    assert code == 2
    told = {
        item["pointer"].removeprefix("/metadata/worker/config"): item["message"]
        for item in summary["problems"]
    }
    assert "did you mean 'learning_rate'" in told["/extras/algo_params/learning_rat"]
    assert "at least 0 and at most 1" in told["/extras/algo_params/gamma"]
    assert "must be int" in told["/extras/algo_params/buffer_size"]
    assert "must be float" in told["/extras/tau"]
    assert "did you mean 'atari'" in told["/extras/requirements"]
    assert "discrete actions" in told["/env_id"]
    assert "required" in told["/total_timesteps"]


@pytest.mark.parametrize(
    ("extras", "sentence"),
    [
        ({"mode": "resume_training", "checkpoint_path": "/nowhere"}, "no file or folder"),
        ({"mode": "policy_eval"}, "'policy_path' is required"),
        ({"mode": "policy_eval", "policy_path": "/nowhere"}, "no file or folder"),
        ({"mode": "script"}, "'script_path' is required"),
        ({"mode": "train", "curriculum_schedule": "X"}, "there is no preset"),
        ({"mode": "tran"}, "did you mean 'train'?"),
        ({"algo_params": {"run_dir": "/x"}}, "is set by the worker"),
    ],
)
def test_every_mode_is_checked(tmp_path: Path, extras: dict[str, object], sentence: str) -> None:
    """A mode's own settings are refused with what is allowed."""
    document = {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 512, "extras": extras}
    worker_config = tmp_path / "config.json"
    worker_config.write_text(json.dumps(document))
    arguments = ("--config", str(worker_config), "--dry-run")
    assert sentence in harness.refuse(tmp_path / "run", *arguments)


@pytest.mark.parametrize(
    ("algo", "env_id", "settings", "sentence"),
    [
        ("ppo_pettingzoo_ma_atari", "pong_v3", {}, "several players"),
        ("ppo_ondevice", "CartPole-v1", {"num_seeds": 4}, "judges one"),
    ],
)
def test_evaluation_beside_training_is_refused_where_it_has_nothing_to_judge(
    tmp_path: Path, algo: str, env_id: str, settings: dict[str, object], sentence: str
) -> None:
    """At the submit, with what to do instead, and not as a note of a run that has begun."""
    extras = {"algo_params": {"eval_every": 1000, **settings}}
    document = {"algo": algo, "env_id": env_id, "total_timesteps": 100_000, "extras": extras}
    code, summary = _dry(tmp_path, document)
    assert code == 2
    told = {item["pointer"].rpartition("/")[2]: item["message"] for item in summary["problems"]}
    assert sentence in told["eval_every"]
    assert "evaluate the policy afterwards" in told["eval_every"]


@pytest.mark.parametrize(
    ("settings", "gpus", "sentence"),
    [
        ({}, 2, "only 1 of 2 GPUs would be used"),
        ({"num_seeds": 6}, 4, "only 3 of 4 GPUs would be used"),
        ({"num_seeds": 3, "torch_threads": 2}, 0, "only 1 of 2 threads would be used"),
        ({"num_seeds": 2, "vmap_sweep": "gamma=0.9,0.99"}, 4, ""),
        ({"torch_threads": 2}, 0, ""),
    ],
)
def test_devices_that_a_compiled_run_cannot_use_are_named(
    settings: dict[str, JsonValue], gpus: int, sentence: str
) -> None:
    """Each training is computed on one device: reserving more than can be used is said before."""
    config = CleanRLWorkerConfig.from_document(
        {"algo": "ppo_ondevice", "total_timesteps": 512, "extras": {"algo_params": settings}}
    )
    notes = foresight.notes(config, resolve(config.algo), gpus)
    assert len(notes) == bool(sentence)
    assert sentence in "".join(notes)


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Before the training process would find out."""
    arguments = ("--algo", "ppo", "--total-timesteps", "512", "--cuda", "--dry-run")
    assert "no NVIDIA driver" in harness.refuse(tmp_path / "run", *arguments)


def test_compiling_without_a_compiler_is_refused(tmp_path: Path) -> None:
    """Before the training process would find out, with what to install or leave out."""
    document = {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 512}
    compiled = {**document, "extras": {"algo_params": {"compile": True}}}
    code, summary = _dry(tmp_path, compiled, CXX="no-such-compiler")
    assert code == 2
    (told,) = summary["problems"]
    assert "no-such-compiler, which is not installed: leave --compile out" in told["message"]


def test_the_command_line_itself_never_loads_torch() -> None:
    """The worker stays small and quick: only the training process loads the heavy packages."""
    program = (
        "import sys; from cleanrl_worker.cli import main; "
        "code = main(['--algo', 'ppo', '--total-timesteps', '512', '--dry-run']); "
        "loaded = {'torch', 'gymnasium', 'grpc', 'wandb'} & set(sys.modules); "
        "sys.exit(f'loaded: {loaded}' if loaded else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nothing was launched" in done.stdout
