"""Other people's packages: each is shown as it is, and none of them disturbs another worker."""

import sys
from pathlib import Path

import pytest
from support.trainer import Trainer, install_package

from mosaic.errors import HookError, InvalidConfigError
from mosaic.workers import discovery, hooks
from mosaic.workers.algorithms import find_algorithm
from mosaic.workers.discovery import discover

HEAD = "from mosaic.workers.capabilities import WorkerCapabilities\n"
DESCRIPTORS = {
    "nonsense": ("return {'oops': 1}", "returns a value of type dict, not WorkerCapabilities"),
    "nothing": ("pass", "returns nothing, not WorkerCapabilities"),
    "raising": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "leaving": ("import sys; sys.exit(3)", "tried to end the process"),
    "hanging": ("import time; time.sleep(600)", "did not answer within"),
    "misnamed": ("return WorkerCapabilities('other')", "its descriptor 'other'"),
    "illtyped": ("return WorkerCapabilities('illtyped', modes=None)", "modes of its descriptor"),
    "wordless": ("return WorkerCapabilities('wordless', modes=(1,))", "not a tuple of words"),
    "cleanrl": ("return WorkerCapabilities('cleanrl')", "belongs to a worker of MOSAIC"),
}


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_LIMIT_S", 2.0)
    monkeypatch.setattr(hooks, "_NAMES_S", 2.0)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **sources: str) -> None:
    """A package for each worker, as `pip install` leaves it."""
    for name, source in sources.items():
        install_package(folder, f"pkg_{name}", {name: "get_worker_metadata"}, HEAD + source)
        monkeypatch.delitem(sys.modules, f"pkg_{name}", raising=False)
    monkeypatch.syspath_prepend(str(folder))


def test_a_broken_package_is_named_with_its_reason_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong type, exception, exit, hang or a name that is taken: all others are found."""
    sources = {
        name: f"print('hello')\ndef get_worker_metadata():\n    {body}\n"
        for name, (body, _) in DESCRIPTORS.items()
    }
    before = {name for name, worker in discover().items() if worker.capabilities}
    install(tmp_path, monkeypatch, **sources)
    found = discover()
    assert {name for name, worker in found.items() if worker.capabilities} == before
    for name, (_, reason) in DESCRIPTORS.items():
        shown = found["cleanrl (pkg_cleanrl 1.0)" if name == "cleanrl" else name]
        assert reason in shown.problem
        assert f"pkg_{name} 1.0" in shown.problem, "the package is named"
    assert capsys.readouterr().out == "", "what a package prints is no output of a command"


def test_two_packages_with_one_name_give_the_same_answer_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first by name keeps it; the other is listed with the reason."""
    body = "def get_worker_metadata():\n    return WorkerCapabilities('twin')\n"
    for package in ("beta", "alpha"):
        install_package(tmp_path, package, {"twin": "get_worker_metadata"}, HEAD + body)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = discover()
    assert found["twin"].package == "alpha 1.0"
    assert "belongs to alpha 1.0" in found["twin (beta 1.0)"].problem


HOOKS = """
def get_worker_metadata():
    return WorkerCapabilities("{name}", module="pkg_{name}", algorithms="pkg_{name}:algorithms",
                              describe="pkg_{name}:describe")

def algorithms():
    {algorithms}

def describe(name):
    {describe}
"""


@pytest.mark.parametrize(
    ("algorithms", "reason"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("return 'cem'", "a value of type str instead of a list"),
        ("return [1]", "a name is a value of type int"),
        ("import time; time.sleep(600)", "did not answer within 2 s"),
    ],
)
def test_a_list_that_cannot_be_read_is_told_and_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithms: str, reason: str
) -> None:
    """The bundled algorithms are found; an unknown name is not blamed on the user alone."""
    source = HOOKS.format(name="sick", algorithms=algorithms, describe="return {}")
    install(tmp_path, monkeypatch, sick=source)
    assert find_algorithm("dqn").worker.worker_type == "cleanrl"
    with pytest.raises(InvalidConfigError, match=r"sick: its hook `algorithms`") as refused:
        find_algorithm("cem")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("describe", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("return []", "instead of a dictionary"),
        ("return {'arguments': [{}]}", "an argument's 'name' is nothing"),
    ],
)
def test_a_description_that_fails_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, describe: str, reason: str
) -> None:
    """`mosaic train cem` names the hook instead of ending in a traceback."""
    source = HOOKS.format(name="sick", algorithms="return ['cem']", describe=describe)
    install(tmp_path, monkeypatch, sick=source)
    with pytest.raises(InvalidConfigError, match="its hook `describe`") as refused:
        find_algorithm("cem")
    assert reason in str(refused.value)


def test_a_description_may_be_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an argument's name must be given; a range may name one bound."""
    answer = "return {'arguments': [{'name': 'elite', 'type': 'int', 'range': {'low': 1}}]}"
    source = HOOKS.format(name="short", algorithms="return ['cem']", describe=answer)
    install(tmp_path, monkeypatch, short=source)
    (argument,) = find_algorithm("cem").arguments or ()
    assert (argument["default"], argument["help"]) == (None, "")
    assert argument["range"] == {
        "low": 1,
        "high": None,
        "low_open": False,
        "high_open": False,
        "choices": [],
    }


def test_a_hook_that_does_not_load_is_found_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mosaic workers`, `doctor` and `check-worker` show it."""
    source = (
        "def get_worker_metadata():\n    return WorkerCapabilities('lame', module='pkg_lame',"
        "validator='pkg_lame:no', dry_run='nowhere:f', algorithms='malformed')\n"
    )
    install(tmp_path, monkeypatch, lame=source)
    worker = discover()["lame"].capabilities
    assert worker is not None
    said = [str(error) for error in hooks.failures(worker)]
    assert [("pkg_lame has no function" in text, "nowhere" in text) for text in said] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    with pytest.raises(HookError, match="not of the form"):
        hooks.algorithms(worker)


STRICT = """
def get_worker_metadata():
    return WorkerCapabilities("strict", module="pkg_strict", describe="pkg_strict:describe",
                              algorithms="pkg_strict:algorithms")

def algorithms():
    return ["cem"]

def describe(name):
    return {"arguments": [
        {"name": "population", "type": "int", "default": 8, "range": {"low": 4}},
        {"name": "policy", "type": "str", "default": "mlp", "range": {"choices": ["mlp", "rnn"]}},
    ]}
"""


def test_a_worker_installed_while_the_daemon_runs_is_found_and_its_word_counts(
    trainer: Trainer, tmp_path: Path
) -> None:
    """No restart is needed; ranges, choices, names, modes and ignored options are enforced."""
    folder = Path(trainer.environment()["PYTHONPATH"].split(":")[0])
    assert "strict" not in {worker.type for worker in trainer.client.workers()}
    install_package(folder, "pkg_strict", {"strict": "get_worker_metadata"}, HEAD + STRICT)
    try:
        assert "strict" in {worker.type for worker in trainer.client.workers()}
        fields = {
            "algo": "cem",
            "extras": {
                "algo_params": {"population": 2, "policy": "cnn", "elite": 1, "stop_at": 5},
                "capture_video": True,
                "track_wandb": True,
            },
        }
        said = trainer.client.validate({**fields, "artifacts": {}})
        assert {problem.pointer.rpartition("/")[2] for problem in said} == {
            "population",
            "policy",
            "elite",
            "stop_at",
            "capture_video",
            "track_wandb",
        }
        assert "at least 4" in next(str(item) for item in said if "population" in item.pointer)
        evaluation = {"algo": "cem", "extras": {"mode": "policy_eval", "policy_path": "x"}}
        said = trainer.client.validate({**evaluation, "artifacts": {}})
        assert "has no mode 'policy_eval'" in str(said[0])
    finally:
        # Other tests of this session share the folder.
        for path in folder.glob("pkg_strict*"):
            path.unlink() if path.is_file() else [item.unlink() for item in path.iterdir()]
        (folder / "pkg_strict-1.0.dist-info").rmdir()
