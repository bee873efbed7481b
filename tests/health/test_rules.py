"""The health rules on recorded curves: silent on good ones, the right name on broken ones."""

import json
import runpy
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from health.record_curves import CASES
from mosaic.curves.names import LAST_EPISODES, RETURN, SPEED
from mosaic.health import RULES, Finding, KnownCurve, Monitor, known_curve
from mosaic.trainer.core.states import Run
from mosaic.trainer.loop.health import HealthWatch

CURVES = Path(__file__).parent / "curves"
RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "learning"
GOOD = sorted(name for name, case in CASES.items() if not case.alarm)
BROKEN = sorted(name for name, case in CASES.items() if case.alarm)


class Report(NamedTuple):
    """One line of a worker."""

    step: int
    values: dict[str, float]


def _reports(name: str) -> tuple[int, list[Report]]:
    document = json.loads((CURVES / f"{name}.json").read_text())
    by_step: dict[int, dict[str, float]] = defaultdict(dict)
    for tag, points in document["curves"].items():
        for step, value in points:
            if value == value:  # an undefined explained variance is never reported
                by_step[step][tag] = value
    reports = [Report(step, by_step[step]) for step in sorted(by_step)]
    return document["total"], reports


def _heard(
    total: int, reports: list[Report], pace_s: float = 1.0, known: KnownCurve | None = None
) -> list[Finding]:
    monitor = Monitor(known)
    return [
        finding
        for number, report in enumerate(reports)
        for finding in monitor.hear(report.step, total, report.values, number * pace_s)
    ]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_run_raises_no_alarm(name: str) -> None:
    """Neither in full detail nor as coarse as a fast run reports itself."""
    total, reports = _reports(name)
    known = _known(name)
    assert _heard(total, reports, known=known) == []
    assert _heard(total, reports[::4], known=known) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_raises_the_alarm_with_the_right_name(name: str) -> None:
    """The first alarm names what was broken, says where, with numbers and with what to try."""
    total, reports = _reports(name)
    found = _heard(total, reports, known=_known(name))
    assert found, "no alarm"
    assert found[0].rule == CASES[name].alarm
    assert 0 <= found[0].step <= reports[-1].step
    assert found[0].evidence
    assert found[0].advice


def _known(name: str) -> KnownCurve | None:
    """The record that the daemon would compare the case with."""
    document = json.loads((CURVES / f"{name}.json").read_text())
    _, asked, rest = document["flags"].partition("--env-id ")
    # The default of the scripts that are recorded without naming one.
    env_id = rest.split()[0] if asked else "CartPole-v1"
    return known_curve(document["script"], env_id)


def _recorded() -> Iterator[tuple[str, int, list[Report], KnownCurve | None]]:
    for path in sorted(RECORDS.glob("*.json")):
        record = json.loads(path.read_text())
        for run in record["runs"]:
            reports = [Report(int(step), {RETURN: value}) for step, value in run.get("curve", ())]
            known = known_curve(record["algorithm"], record["env_id"])
            total = int(record["total_timesteps"])
            yield f"{path.stem} seed {run['seed']}", total, reports, known


def test_the_learning_records_raise_no_alarm() -> None:
    """Every curve that this project has recorded as learning is healthy, also where it dips."""
    found = {
        name: _heard(total, reports, known=known) for name, total, reports, known in _recorded()
    }
    assert len(found) > 50
    assert {name: findings for name, findings in found.items() if findings} == {}


def test_the_package_carries_the_records_of_several_seeds() -> None:
    """What live runs are compared with is what the records say today, and not one seed's luck."""
    script = runpy.run_path(str(RECORDS.parents[1] / "learning" / "known_curves.py"))
    packed = script["packed"]()
    assert script["PACKED"].read_text() == packed, "run: python -m benchmarks.learning.known_curves"
    known = known_curve("ppo", "CartPole-v1")
    assert known is not None
    assert (known.seeds, known.random) == (3, 22.0)
    assert known.command == "mosaic train ppo --env-id CartPole-v1 --total-timesteps 500000"
    assert known.at(0) == known.random
    assert known.at(10**9) == known.lowest[-1][1] > 400
    assert known_curve("ppo_atari", "BreakoutNoFrameskip-v4") is None, "one seed is no rule"


FLAT = [Report(step, {RETURN: 23.0}) for step in range(5_000, 500_001, 5_000)]


def test_a_run_is_only_far_behind_where_the_record_had_learned_by_then() -> None:
    """Silent without a record, on a short run, one that still rises, and a slow exploration."""
    known = known_curve("ppo", "CartPole-v1")
    (finding,) = _heard(500_000, FLAT, known=known)
    assert finding.rule == "below-known"
    assert "each of 3 recorded seeds had at least" in finding.evidence
    assert finding.advice.endswith(str(known and known.command))
    assert _heard(500_000, FLAT) == []
    # Ten times the steps: its exploration lasts ten times as long, at this step it is only a tenth.
    assert _heard(5_000_000, FLAT, known=known) == []
    # A twentieth of the steps: the record had learned little by then too.
    assert _heard(25_000, FLAT[:5], known=known) == []
    rising = [Report(r.step, {RETURN: 23.0 + r.step / 2_000}) for r in FLAT]
    assert _heard(500_000, rising, known=known) == []


def test_a_run_that_becomes_slow_is_reported_and_a_paused_minute_is_not() -> None:
    """Ten times slower for half a minute is an alarm; a slow start and a short dip are none."""
    learning = {"losses/td_loss": 1.0, "losses/q_values": 1.0}
    fast = [Report(step, {SPEED: 4000.0, **learning}) for step in range(0, 40_000, 1000)]
    dip = [Report(step, {SPEED: 200.0, **learning}) for step in range(40_000, 45_000, 1000)]
    slow = [Report(step, {SPEED: 200.0, **learning}) for step in range(45_000, 95_000, 1000)]
    alone = [Report(step, {SPEED: 90_000.0}) for step in range(-10_000, 0, 1000)]
    assert _heard(100_000, [*alone, *fast, *dip, *fast]) == []
    (finding,) = _heard(100_000, [*alone, *fast, *slow])
    assert finding.rule == "speed-collapse"
    assert "200 steps a second" in finding.evidence


def test_each_rule_says_a_thing_once() -> None:
    """A run that stays ill is not reported again and again, nor after the daemon's restart."""
    total, reports = _reports(BROKEN[0])
    rules = [finding.rule for finding in _heard(total, reports)]
    assert len(rules) == len(set(rules))
    monitor = Monitor()
    again = [
        finding
        for report in reports
        for finding in monitor.hear(report.step, total, report.values, 0.0, known=rules)
    ]
    assert again == []


def test_hours_of_reports_take_no_more_memory_than_minutes() -> None:
    """A curve is thinned, its beginning stays, and each report is judged in the same time."""
    from mosaic.health.history import History

    history = History()
    for step in range(10_000):
        history.add(step, 10_000, {f"losses/{step % 300}": 1.0, RETURN: float(step)}, step)
    series = history.get(RETURN)
    assert series is not None
    assert len(series.points) <= 256
    assert (series.first, series.newest) == (0.0, 9999.0)
    assert len([tag for tag in range(300) if history.get(f"losses/{tag}")]) < LAST_EPISODES


def test_no_rule_trips_over_what_a_worker_may_say() -> None:
    """One report, no total, equal steps, steps that go back: nothing is wrong, nothing breaks."""
    assert len(RULES) >= 9
    odd = [Report(0, {}), Report(0, {RETURN: 0.0}), Report(5, {RETURN: 0.0, SPEED: 0.0})]
    assert _heard(0, odd) == []
    assert _heard(10, [*odd, Report(2, {"losses/approx_kl": 0.0, "losses/entropy": 0.0})]) == []


def test_the_daemon_compares_a_training_run_with_its_record(tmp_path: Path) -> None:
    """By algorithm and environment of the run's row; an evaluation counts episodes and is left."""

    def alarms(mode: str) -> list[str]:
        watch = HealthWatch(tmp_path)
        run = Run("01HZZZZZZZZZZZZZZZZZZZZZZZ", algo="ppo", env_id="CartPole-v1", mode=mode)
        return [
            alarm.rule
            for number, report in enumerate(FLAT)
            for alarm in watch.metrics(run, report.step, 500_000, report.values, float(number))
        ]

    assert alarms("train") == ["below-known"]
    assert alarms("policy_eval") == []
