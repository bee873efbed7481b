"""`mosaic check-worker` passes what keeps the contract and names the rule that is broken."""

import json
from pathlib import Path

import pytest

from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.check import CheckResult, check_capabilities, check_worker

RULES = {
    "no handshake": "handshake",
    "speaks before the start": "start",
    "malformed lines": "signs of life",
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
    return [result.rule for result in results if not result.passed]


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
    assert failed_rules(list(check_capabilities(bare))) == ["descriptor"]


@pytest.mark.parametrize("name", ["example", "cleanrl", "human", "spade_bdi"])
def test_our_own_workers_keep_the_contract(name: str) -> None:
    """Every worker of this repository passes every rule."""
    results = list(check_worker(name))
    assert len(results) == 9
    assert not failed_rules(results), results
