"""`mosaic check-worker`: any worker against the contract, with a real daemon of its own.

Two runs are made: a long one that is paused and cancelled, and a short one that ends by itself.
What each of them printed and saved is looked at afterwards (`mosaic.workers.evidence`).
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.config import build
from mosaic.config.json_types import JsonValue
from mosaic.config.suggest import did_you_mean
from mosaic.connect import auth
from mosaic.errors import HookError, MosaicError, WorkerContractError
from mosaic.records import RunRecord, State
from mosaic.system import processes
from mosaic.workers import evidence, hooks
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import discover
from mosaic.workers.lifecycle import LifecycleLine

if TYPE_CHECKING:
    from mosaic.client import TrainerClient

# Generous: a cold start imports torch, and what is checked is the contract, not the speed.
_START_S, _SHORT_S, _EXIT_S = 60.0, 120.0, 30.0
PATIENCE_S = 20.0
_TERMINATED = 143
# A paused worker is measured beside a loop that only works, so that a busy machine makes no
# difference: both get less then. Heartbeats may continue, training may not.
_YARDSTICK_S, _IDLE_SHARE = 0.5, 0.3
_NO_RUN = RunRecord(run_id="")


# What a run is given to keep to itself; its worker must never print it.
_PASSWORD_VARIABLE = "CHECK_WORKER_PASSWORD"


@dataclass(frozen=True)
class CheckResult:
    """One rule and whether it holds.

    Attributes:
        rule: The rule's name.
        passed: Whether it holds.
        detail: What was seen.
        skipped: It could not be looked at, because a rule before it was broken.
    """

    rule: str
    passed: bool
    detail: str
    skipped: bool = False


@dataclass
class _Bench:
    """What a check needs: the daemon, the configs, the current run."""

    trainer: "TrainerClient"
    capabilities: WorkerCapabilities
    configs: dict[str, dict[str, JsonValue]]
    patience_s: float
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    record: RunRecord = _NO_RUN

    def submit(self, which: str) -> None:
        worker = build.Worker(self.capabilities.worker_type, self.capabilities.module)
        document = build.any_worker(worker, self.configs[which]).document()
        document["environment"] = {_PASSWORD_VARIABLE: self.password}
        self.record = self.trainer.submit(document)

    def until(self, reached: Callable[[RunRecord], bool], limit_s: float, what: str) -> None:
        deadline = time.monotonic() + limit_s
        while True:
            self.record = self.trainer.get(self.record.run_id)
            if reached(self.record):
                return
            if self.record.ended:
                reason = self.record.reason or self.record.outcome
                raise WorkerContractError(f"the run ended before {what}: {reason}")
            if time.monotonic() > deadline:
                state = self.record.state
                hint = evidence.broken_lines(self.record)
                raise WorkerContractError(
                    f"still {state} after {limit_s:g} s, waiting for {what}"
                    + (f"; {hint[0]}" if hint else "")
                )
            time.sleep(0.05)

    def lines(self) -> list[LifecycleLine]:
        """The worker's lifecycle lines that keep the contract."""
        return evidence.good_lines(self.record)


Rule = tuple[str, Callable[[_Bench], str]]


def check_worker(name: str) -> Iterator[CheckResult]:
    """Check an installed worker, rule by rule.

    Raises:
        WorkerContractError: It is not installed.
    """
    found = discover()
    worker = found.get(name)
    if worker is None or worker.capabilities is None:
        missing = f"nothing of this name is installed{did_you_mean(name, found)}"
        problem = worker.problem if worker else missing
        raise WorkerContractError(f"{name} cannot be checked: {problem}")
    yield from check_capabilities(worker.capabilities)


def check_capabilities(
    capabilities: WorkerCapabilities, patience_s: float = PATIENCE_S
) -> Iterator[CheckResult]:
    """Check a worker by its descriptor; it gets `patience_s` for each thing it has to do."""
    try:
        configs = _configs(capabilities)
    except WorkerContractError as error:
        yield CheckResult("descriptor", False, str(error))
        yield from _skipped(("hooks", "exit code of a bad start", *_RULE_NAMES))
        return
    yield CheckResult("descriptor", True, f"{capabilities.worker_type}: {capabilities.module}")
    yield _hooks(capabilities)
    yield _bad_start(capabilities)
    from mosaic.client import TrainerClient
    from mosaic.config.paths import Home
    from mosaic.config.settings import Settings, save_settings

    # A home of its own: the check kills and cancels, and must not meet the user's runs.
    with tempfile.TemporaryDirectory(prefix="mosaic-check-") as folder:
        home = Home.locate(folder)
        # Cold and with a short deadline: a warm start would hide what the worker's own start does.
        save_settings(home, Settings(warm_start=False, port=0, handshake_timeout_s=patience_s))
        with TrainerClient.connect(home, start=True) as trainer:
            try:
                yield from _on_the_bench(_Bench(trainer, capabilities, configs, patience_s))
            finally:
                trainer.shutdown("stop")
                _wait_until_gone(home.endpoint)


def _on_the_bench(bench: _Bench) -> Iterator[CheckResult]:
    for rules in (_LIFE, _SHORT_LIFE):
        broken = False
        for rule, check in rules:
            # What was printed and saved can be judged however the run ended.
            if broken and check not in _AFTERWARDS:
                yield from _skipped((rule,))
                continue
            try:
                yield CheckResult(rule, True, check(bench))
            except (MosaicError, TimeoutError) as error:
                broken = True
                yield CheckResult(rule, False, str(error))
        bench.trainer.cancel(bench.record.run_id) if bench.record.live else None


def _skipped(rules: Iterable[str]) -> Iterator[CheckResult]:
    for rule in rules:
        yield CheckResult(rule, False, "not checked: a rule before it is broken", skipped=True)


def _configs(capabilities: WorkerCapabilities) -> dict[str, dict[str, JsonValue]]:
    if not capabilities.check_config:
        raise WorkerContractError("check_config is empty: give a long and a short configuration")
    try:
        configs: dict[str, dict[str, JsonValue]] = json.loads(capabilities.check_config)
    except ValueError as error:
        raise WorkerContractError(f"check_config is not JSON: {error}") from None
    missing = {"long", "short"} - set(configs)
    if missing:
        raise WorkerContractError(f"check_config lacks {', '.join(sorted(missing))}")
    return configs


def _hooks(capabilities: WorkerCapabilities) -> CheckResult:
    """Every hook loads, and those that list things answer as the contract asks."""
    problems = [str(error) for error in hooks.failures(capabilities)]
    if not problems:
        try:
            names = hooks.algorithms(capabilities)
            for name in names if capabilities.describe else ():
                hooks.describe(capabilities, name)
            hooks.environments(capabilities)
        except (HookError, ValueError) as error:
            problems.append(str(error))
    given = [name for name in hooks.NAMES if getattr(capabilities, name)]
    return CheckResult("hooks", not problems, "; ".join(problems) or ", ".join(given) or "none")


def _bad_start(capabilities: WorkerCapabilities) -> CheckResult:
    """A worker that is given nonsense must say so and not exit 0."""
    rule = "exit code of a bad start"
    command = [sys.executable, "-m", capabilities.module, "--config", "no-such-file.json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_EXIT_S, check=False)
    except subprocess.TimeoutExpired:
        return CheckResult(rule, False, f"it still ran after {_EXIT_S:g} s without a config")
    if done.returncode == 0:
        return CheckResult(rule, False, "it exited 0 although its config does not exist")
    return CheckResult(rule, True, f"exit code {done.returncode}")


def _handshake(bench: _Bench) -> str:
    bench.submit("long")
    bench.until(lambda now: now.state in (State.RDY, State.EXEC), _START_S, "the handshake")
    return f"registered with {json.dumps(dict(bench.record.capabilities))}"


def _start(bench: _Bench) -> str:
    bench.until(lambda now: now.is_running, bench.patience_s, "run_started")
    lines = bench.lines()
    first = lines[0].event if lines else "nothing"
    if first != "run_started":
        raise WorkerContractError(f"its first line is {first}, not run_started")
    return "run_started after the handshake"


def _signs_of_life(bench: _Bench) -> str:
    def beats(_: RunRecord) -> bool:
        return any(line.event in ("heartbeat", "metrics") for line in bench.lines())

    # The contract allows 30 s between two signs of life.
    bench.until(beats, 35.0, "a heartbeat or metrics line")
    return "heartbeat or metrics seen"


def _pause(bench: _Bench) -> str:
    promised = bench.capabilities.supports_pause
    bench.trainer.pause(bench.record.run_id)
    bench.until(lambda now: now.is_paused, bench.patience_s, "the pause")
    before = _cpu_s(bench.record.run_id)
    spent = _work_for(_YARDSTICK_S)
    used = _cpu_s(bench.record.run_id) - before
    if used > _IDLE_SHARE * spent:
        raise WorkerContractError(
            f"it used {used:.2f} s of processor time while paused; "
            f"a process that only works used {spent:.2f} s meanwhile"
        )
    bench.trainer.resume(bench.record.run_id)
    bench.until(lambda now: now.is_running, bench.patience_s, "the resume")
    return "at a safe point" if promised else "by SIGSTOP, as it does not support pause itself"


def _cancel(bench: _Bench) -> str:
    from mosaic.system.processes import marked_processes

    run_id = bench.record.run_id
    bench.trainer.cancel(run_id, grace_s=bench.patience_s)
    record = bench.trainer.wait(run_id, timeout_s=bench.patience_s + 15)
    bench.record = record
    left = marked_processes(run_id)
    if left:
        raise WorkerContractError(f"{len(left)} of its processes are still alive")
    if record.exit_code != _TERMINATED:
        code = record.exit_code
        raise WorkerContractError(f"exit code {code} after SIGTERM, the contract asks for 143")
    lines = bench.lines()
    if not lines or lines[-1].event != "run_failed" or lines[-1].fields["reason"] != "terminated":
        last = lines[-1].event if lines else "missing"
        raise WorkerContractError(f"its last line is {last}, not run_failed: terminated")
    return "exit code 143, last line run_failed: terminated, nothing left behind"


def _completion(bench: _Bench) -> str:
    bench.submit("short")
    record = bench.trainer.wait(bench.record.run_id, timeout_s=_SHORT_S)
    bench.record = record
    if not record.completed:
        raise WorkerContractError(f"it ended {record.outcome}: {record.reason}")
    events = [line.event for line in bench.lines()]
    if events[-1:] != ["run_completed"]:
        last = events[-1] if events else "missing"
        raise WorkerContractError(f"its last line is {last}, not run_completed")
    return "run_completed, exit code 0"


def _event_order(bench: _Bench) -> str:
    events = bench.trainer.events(bench.record.run_id)
    numbers = [event.seq for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        raise WorkerContractError(f"its events are not dense: {numbers}")
    kinds = [event.kind for event in events]
    order = ("spawned", "worker_registered", "run_started", "completion_reported", "settled")
    missing = [kind for kind in order if kind not in kinds]
    if missing:
        raise WorkerContractError(f"its events lack {', '.join(missing)}: {', '.join(kinds)}")
    places = [kinds.index(kind) for kind in order]
    if places != sorted(places):
        raise WorkerContractError(f"its events come out of order: {', '.join(kinds)}")
    return " → ".join(order)


def _output(bench: _Bench) -> str:
    """What it printed: well-formed lines of this run, not too many, and no secret."""
    home = bench.trainer.home
    key = auth.launch_key(auth.load_token(home.token), bench.record.run_id)
    return evidence.judge_output(
        bench.record, {"MOSAIC_LAUNCH_KEY": key, _PASSWORD_VARIABLE: bench.password}
    )


def _checkpoints(bench: _Bench) -> str:
    return evidence.judge_checkpoints(bench.record)


_LIFE: tuple[Rule, ...] = (
    ("handshake", _handshake),
    ("start", _start),
    ("signs of life", _signs_of_life),
    ("pause and resume", _pause),
    ("cancel", _cancel),
    ("output of the long run", _output),
)
_SHORT_LIFE: tuple[Rule, ...] = (
    ("completion", _completion),
    ("event order", _event_order),
    ("output of the short run", _output),
    ("checkpoints", _checkpoints),
)
_AFTERWARDS = (_output, _checkpoints)
_RULE_NAMES = tuple(rule for rule, _ in (*_LIFE, *_SHORT_LIFE))


def _cpu_s(run_id: str) -> float:
    ticks = sum(processes.cpu_ticks(pid) for pid in processes.marked_processes(run_id))
    return ticks / os.sysconf("SC_CLK_TCK")


def _work_for(seconds: float) -> float:
    """Work until so much processor time is used, or the machine has given none for a minute."""
    begun, deadline = time.thread_time(), time.monotonic() + 60.0
    while (spent := time.thread_time() - begun) < seconds and time.monotonic() < deadline:
        pass
    return max(spent, seconds)


def _wait_until_gone(endpoint: Path) -> None:
    deadline = time.monotonic() + 60.0
    while endpoint.exists():
        if time.monotonic() > deadline:
            raise MosaicError("the daemon of the check did not stop")
        time.sleep(0.05)
