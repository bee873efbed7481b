"""`mosaic check-worker` passes what keeps the contract and names the rule that is broken."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mosaic.errors import WorkerContractError
from mosaic.records import RunRecord
from mosaic.workers import evidence
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.check import CheckResult, check_capabilities, check_worker

RUN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
RULES = {
    "no handshake": "handshake",
    "speaks before the start": "start",
    "malformed lines": "output of the long run",
    "no such checkpoint": "checkpoints",
    "deaf to pause": "pause and resume",
    "works while paused": "pause and resume",
    "wrong exit code": "cancel",
    "no last word": "cancel",
    "no completion": "completion",
    "completes before it starts": "event order",
}


def broken(fault: str) -> WorkerCapabilities:
    fields = {"extras": {"fault": fault}}
    long, short = {"total_timesteps": 1000, **fields}, {"total_timesteps": 1, **fields}
    return WorkerCapabilities(
        worker_type="example",
        module="broken_worker",
        supports_pause=True,
        check_config=json.dumps({"long": long, "short": short}),
    )


def failed_rules(results: list[CheckResult]) -> list[str]:
    return [result.rule for result in results if not result.passed and not result.skipped]


@pytest.fixture(autouse=True)
def _find_the_broken_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.delenv("MOSAIC_HOME", raising=False)


@pytest.mark.parametrize("fault", RULES)
def test_a_broken_worker_is_caught_on_its_rule(fault: str) -> None:
    """Whoever breaks one rule of the contract is told which one."""
    results = list(check_capabilities(broken(fault), patience_s=4.0))
    assert failed_rules(results)[0] == RULES[fault], results
    assert all(result.detail for result in results)


def test_a_worker_that_exits_zero_on_nonsense_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that cannot read its config must not pretend that all is well."""
    monkeypatch.setenv("BROKEN_START", "1")
    results = list(check_capabilities(broken("none"), patience_s=4.0))
    assert failed_rules(results) == ["exit code of a bad start"]


def test_a_worker_without_check_configs_is_caught() -> None:
    """A descriptor that cannot be checked is itself the failure."""
    bare = WorkerCapabilities(worker_type="example", module="broken_worker")
    results = list(check_capabilities(bare))
    assert failed_rules(results) == ["descriptor"]
    assert sum(result.skipped for result in results) == 12, "what was not checked is listed"


def _left(folder: Path, out: str = "", err: str = "") -> RunRecord:
    """A run that printed this."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "stdout.log").write_text(out)
    (logs / "stderr.log").write_text(err)
    return RunRecord(run_id=RUN_ID, run_dir=str(folder))


def test_secrets_foreign_lines_and_floods_are_caught(tmp_path: Path) -> None:
    """What a worker prints is read by everyone who may read logs, and by the daemon."""
    secrets = {"MOSAIC_LAUNCH_KEY": "k3y", "PASSWORD": "hunter2"}
    with pytest.raises(WorkerContractError, match=r"PASSWORD in stderr\.log"):
        evidence.judge_output(_left(tmp_path, err="hunter2"), secrets)
    with pytest.raises(WorkerContractError, match=r"MOSAIC_LAUNCH_KEY in stdout\.log"):
        evidence.judge_output(_left(tmp_path, out="my k3y\n"), secrets)
    foreign = '{"event":"heartbeat","run_id":"01J0000000000000000000000Z"}\n'
    with pytest.raises(WorkerContractError, match="another run: '01J0000000000000000000000Z'"):
        evidence.judge_output(_left(tmp_path, out=foreign), secrets)
    metrics = f'{{"event":"metrics","run_id":"{RUN_ID}","step":1,"values":{{}},"at":'
    flood = "".join(f"{metrics}{at / 5000}}}\n" for at in range(10_001))
    with pytest.raises(WorkerContractError, match=r"10,001 metrics lines in 2\.0 s"):
        evidence.judge_output(_left(tmp_path, out=flood), secrets)
    calm = "".join(f"{metrics}{at}}}\n" for at in range(100))
    assert "100 lifecycle lines" in evidence.judge_output(_left(tmp_path, out=calm), secrets)


def test_a_checkpoint_must_be_what_was_announced(tmp_path: Path) -> None:
    """The newest of each kind is there with its checksum; older ones may be gone."""
    (tmp_path / "new.pt").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    fields = '"path":"{}","step":1,"sha256":"{}","kind":"full"'
    line = f'{{{{"event":"checkpoint_saved","run_id":"{RUN_ID}",{fields}}}}}\n'
    gone, right = line.format("old.pt", "0"), line.format("new.pt", digest)
    assert "new.pt" in evidence.judge_checkpoints(_left(tmp_path, out=gone + right))
    with pytest.raises(WorkerContractError, match=r"old\.pt, which is not a file"):
        evidence.judge_checkpoints(_left(tmp_path, out=right + gone))
    with pytest.raises(WorkerContractError, match="sha256"):
        evidence.judge_checkpoints(_left(tmp_path, out=line.format("new.pt", "0")))


def test_hooks_that_do_not_load_are_caught() -> None:
    """A hook that fails for users fails here first."""
    lame = replace(broken("none"), describe="no_such_module:describe")
    results = {result.rule: result for result in check_capabilities(lame, patience_s=4.0)}
    assert not results["hooks"].passed
    assert "no_such_module" in results["hooks"].detail


@pytest.mark.parametrize("name", ["example", "cleanrl", "human", "llm", "spade_bdi"])
def test_our_own_workers_keep_the_contract(name: str) -> None:
    """Every worker of this repository passes every rule."""
    results = list(check_worker(name))
    assert len(results) == 13
    assert not failed_rules(results), results
