"""What a worker declares is used: for forms, acceptance and reservations. No worker is special."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support.trainer import Trainer

from mosaic.errors import InvalidConfigError
from mosaic.workers import WorkerCapabilities
from mosaic.workers.discovery import discover
from mosaic.workers.facts import EnvironmentFacts
from mosaic.workers.fitting import misfit, modules_for, offered, reservation

ROOT = Path(__file__).parents[2]
# As the documentation of the CleanRL worker writes it.
DOCUMENTED = WorkerCapabilities(
    worker_type="cleanrl",
    supported_paradigms=("sequential",),
    env_families=("gymnasium", "atari", "procgen", "mujoco", "dm_control", "minigrid", "babyai"),
    action_spaces=("discrete", "continuous"),
    observation_spaces=("vector", "image"),
    max_agents=1,
    supports_checkpointing=True,
    requires_gpu=False,
    estimated_memory_mb=512,
)
POLE: EnvironmentFacts = {
    "id": "CartPole-v1",
    "family": "classic_control",
    "actions": "discrete",
    "observations": "vector",
}
_NAMES = re.compile(r"cleanrl|spade|\bhuman\b|\bllm\b", re.IGNORECASE)
# Modules whose sentences give a worker as an example, each for a reason of its own.
_EXAMPLES = {
    "mosaic/arena/match.py": "the arena has a name for each kind of agent",
    "mosaic/arena/table.py": "it shows those names",
    "mosaic/client/arena.py": "it finds out what those names stand for",
    "mosaic/client/tables.py": "it says which of those names can sit at a table",
    "mosaic/cli/arena.py": "it explains those names",
    "mosaic/cli/doctor.py": "a set of optional packages has that name",
    "mosaic/cli/llm.py": "a command is named after its kind of agent",
    "mosaic/cli/main.py": "it lists that command",
    "mosaic/config/model.py": "an older name of a setting is still read",
    "mosaic/fastlane/cameras.py": "a render mode of Gymnasium",
    "mosaic/fastlane/settings.py": "the variables have kept their documented names",
    "mosaic/curves/names.py": "charts are called as in CleanRL",
    "mosaic/workers/algorithms.py": "a prefix that a worker resolves by itself",
}


def _sources(*folders: str) -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "wire" not in path.parts
    }


@pytest.mark.parametrize("name", [item.name for item in fields(WorkerCapabilities)])
def test_every_capability_has_a_reader(name: str) -> None:
    """A worker's author declares nothing in vain."""
    readers = [
        path
        for path, text in _sources("mosaic", "gym_gui").items()
        if path != "mosaic/workers/capabilities.py" and re.search(rf"\.{name}\b", text)
    ]
    assert readers, f"no part of MOSAIC reads {name}"


def test_the_platform_knows_no_worker_by_name() -> None:
    """A third party's worker is treated like the bundled ones: nothing in `mosaic` names one."""
    named = {
        path: [line for line in text.splitlines() if _NAMES.search(line)]
        for path, text in _sources("mosaic").items()
        if _NAMES.search(text) and path not in _EXAMPLES
    }
    assert named == {}


def test_the_documented_descriptor_is_accepted() -> None:
    """The descriptor of the user's documents works as written, without a module."""
    assert DOCUMENTED.module == ""
    assert misfit(DOCUMENTED, POLE) == ""


def test_a_worker_without_a_module_is_started_by_its_package() -> None:
    """Discovery fills in `PACKAGE.cli`; the bundled workers follow the same rule."""
    for name in ("cleanrl", "human", "spade_bdi"):
        worker = discover()[name].capabilities
        assert worker is not None
        assert worker.module.endswith("_worker.cli")


def test_modules_of_some_algorithms_are_imported_for_these_only() -> None:
    """No run waits for what only other algorithms need, and a name decides which those are."""
    worker = replace(
        DOCUMENTED, warm_modules=("a",), heavy_algorithms=("*_x", "y"), heavy_modules=("b",)
    )
    assert modules_for(worker, "ppo") == modules_for(worker, "x_ppo") == ("a",)
    assert modules_for(worker, "ppo_x") == modules_for(worker, "y") == ("a", "b")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"family": "pettingzoo"}, "has no pettingzoo environments"),
        ({"family": "toy_text"}, ""),
        ({"family": "other"}, ""),
        ({"actions": "multi_discrete"}, "has multi_discrete actions"),
        ({"observations": "text"}, "has text observations"),
        ({"observations": "other"}, ""),
        ({"paradigm": "simultaneous"}, "act simultaneous"),
        ({"agents": 2}, "has 2 agents, cleanrl controls at most 1"),
    ],
)
def test_environments_that_do_not_fit_are_told_apart(
    change: EnvironmentFacts, sentence: str
) -> None:
    """Family, actions, observations, turns and number of agents are each looked at."""
    environment: EnvironmentFacts = {**POLE, **change}
    said = misfit(DOCUMENTED, environment)
    assert sentence in said
    assert bool(said) == bool(sentence)
    assert offered(DOCUMENTED, [environment, POLE]) == ([POLE] if said else [environment, POLE])


def test_an_algorithm_knows_its_spaces_better_than_its_worker() -> None:
    """What `describe` says about an algorithm narrows or widens what its worker says."""
    grid: EnvironmentFacts = {**POLE, "observations": "grid"}
    assert misfit(DOCUMENTED, grid)
    assert misfit(DOCUMENTED, grid, {"observations": ["grid"]}) == ""
    assert "has vector observations" in misfit(DOCUMENTED, POLE, {"observations": ["image"]})


def test_what_a_run_does_not_ask_for_is_reserved_by_its_worker() -> None:
    """Memory and GPU come from the descriptor unless the run says otherwise."""
    hungry = WorkerCapabilities("x", requires_gpu=True, estimated_memory_mb=4096)
    assert reservation(DOCUMENTED, machine_memory_mb=8192).memory_mb == 512
    assert reservation(DOCUMENTED, memory_mb=0, machine_memory_mb=8192).memory_mb == 0
    assert reservation(hungry, machine_memory_mb=2048).memory_mb == 2048, "only an estimate"
    kept = reservation(hungry, machine_memory_mb=8192)
    assert (kept.gpus, kept.gpus_mandatory) == (1, 1)
    assert reservation(hungry, gpus=2, gpus_mandatory=2).gpus == 2


def test_the_daemon_reserves_and_refuses_by_what_is_declared(trainer: Trainer) -> None:
    """A run holds its worker's memory; a variable that a worker keeps cannot be set."""
    fields = {"env_id": "FrozenLake-v1", "extras": {"episodes": 5, "frames": False}}
    job = {"artifacts": {}, "metadata": {"worker": {"type": "spade_bdi", "config": fields}}}
    run_id = str(trainer.client.submit(job).run_id)
    first = json.loads((trainer.directory(run_id).path / "events.jsonl").read_text().split("\n")[0])
    assert first["data"]["request"]["memory_mb"] == 200
    assert trainer.ended(run_id).outcome == "completed"
    with pytest.raises(InvalidConfigError) as refused:
        trainer.client.submit({**job, "environment": {"CLEANRL_BRIDGE_FD": "3"}})
    assert [problem.code for problem in refused.value.problems] == ["CFG108"]
