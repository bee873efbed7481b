"""Algorithms are found by asking every installed worker; the platform knows none by name."""

from pathlib import Path

import pytest

from mosaic.config.validation import validate_train_run_config
from mosaic.errors import InvalidConfigError
from mosaic.workers.algorithms import find_algorithm, worker_for, worker_of
from mosaic.workers.discovery import discover

THIRD_PARTY = """
from mosaic.workers.capabilities import WorkerCapabilities

def get_worker_metadata():
    return WorkerCapabilities(
        worker_type="third", module="third_party", modes=("train", "script"),
        algorithms="third_party:algorithms", describe="third_party:describe",
    )

def get_broken_metadata():
    return WorkerCapabilities(worker_type="sick", module="third_party", algorithms="third_party:no")

def algorithms():
    return ["cem", "ppo"]

def describe(name):
    if name not in algorithms():
        raise ValueError(f"there is no algorithm {name!r}")
    argument = {"name": "elite", "type": "float", "default": 0.2, "help": "", "range": None}
    return {"default_env": "CartPole-v1", "arguments": [argument], "smoke": {}}
"""
ENTRY_POINTS = """
[mosaic.workers]
third = third_party:get_worker_metadata
sick = third_party:get_broken_metadata
"""


@pytest.fixture(autouse=True)
def _third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's package, found by its entry point alone; one of its workers is broken."""
    package = tmp_path / "third_party-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "third_party.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_third_partys_algorithm_is_found_by_its_name() -> None:
    """`mosaic train cem` needs no change of the platform, and its flags have their types."""
    found = find_algorithm("cem")
    assert (found.worker.worker_type, found.name) == ("third", "cem")
    assert found.kinds == {"elite": "float"}
    assert find_algorithm("dqn").worker.worker_type == "cleanrl"


def test_a_name_that_two_workers_have_must_be_chosen() -> None:
    """The refusal names the choices, and each of them works; so does `worker:algorithm`."""
    with pytest.raises(InvalidConfigError, match="--worker cleanrl or --worker third"):
        find_algorithm("ppo")
    assert find_algorithm("ppo", "third").worker.worker_type == "third"
    assert find_algorithm("ppo", "cleanrl").facts != find_algorithm("ppo", "third").facts
    assert find_algorithm("third:ppo").worker.worker_type == "third"
    with pytest.raises(InvalidConfigError, match="did you mean 'third'"):
        find_algorithm("ppo", "thrid")


def test_a_prefix_that_a_worker_resolves_itself_is_left_to_it() -> None:
    """`cleanrl:ppo` is the unmodified upstream script, never the bundled one."""
    assert worker_of("cleanrl:ppo", discover()) == "cleanrl"
    with pytest.raises(InvalidConfigError, match="CLEANRL_HOME"):
        find_algorithm("cleanrl:no_such_script")


def test_a_mistyped_name_gets_the_nearest_of_all_workers() -> None:
    """A broken worker does not spoil the search."""
    with pytest.raises(InvalidConfigError, match="did you mean 'cem'"):
        find_algorithm("ceem")


def test_a_flat_document_finds_its_worker_or_is_refused_with_everything_else() -> None:
    """Without `worker` the algorithm decides; a wrong name does not hide other problems."""
    installed = discover()
    config = validate_train_run_config(
        {"algo": "cem"}, None, lambda algo: worker_of(algo, installed)
    )
    assert config.metadata.worker.type == "third"
    with pytest.raises(InvalidConfigError) as refused:
        validate_train_run_config(
            {"algo": "ceem", "seed": "x"}, None, lambda algo: worker_of(algo, installed)
        )
    pointers = [problem.pointer for problem in refused.value.problems]
    assert pointers == ["/metadata/worker/config/algo", "/metadata/worker/config/seed"]


def test_other_modes_are_found_the_same_way() -> None:
    """A person plays with the worker that has the mode; two that run scripts must be chosen."""
    assert worker_for("play").worker_type == "human"
    with pytest.raises(InvalidConfigError, match="choose with --worker"):
        worker_for("script")
    assert worker_for("script", "third").worker_type == "third"
    with pytest.raises(InvalidConfigError, match="has no mode 'play'"):
        worker_for("play", "third")
