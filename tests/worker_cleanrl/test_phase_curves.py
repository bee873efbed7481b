"""The curves of a script are those of its phases, one after the other."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support import harness

from cleanrl_worker.phase_curves import PhaseCurves, Shift
from cleanrl_worker.running.tensorboard import NoEvents
from cleanrl_worker.script_folders import SCRIPT_DIR, curves_folder, event_folder
from mosaic.curves.names import BEST_STEP, EPISODES, RETURN, TAGS
from mosaic.runs.metric_writer import MetricWriter
from mosaic.runs.metrics import MetricReader

Points = list[tuple[int, float]]
CURVE, COUNT = TAGS[RETURN], TAGS[EPISODES]


def _points(run_dir: Path, tag: str) -> Points:
    found = MetricReader(run_dir).read(tag)
    return list(zip(found["step"].tolist(), found["value"].tolist(), strict=True))


def _stored(folder: Path, **curves: Points) -> Path:
    with MetricWriter(folder) as writer:
        for tag, points in curves.items():
            for step, value in points:
                writer.add(tag, step, value, 7.0)
    return folder


def test_a_phase_follows_those_before_it(tmp_path: Path) -> None:
    """Steps, the number of episodes and values that are steps; every point once, as it was."""
    curves = PhaseCurves(tmp_path, NoEvents)
    first = _stored(tmp_path / "1", **{CURVE: [(10, 1.0), (90, 2.0)], COUNT: [(90, 4.0)]})
    curves.begin(first, Shift())
    curves.catch_up()
    _stored(first, **{CURVE: [(100, 3.0)], "eval/episodic_return": [(1, 5.0), (2, 6.0)]})
    second = _stored(
        tmp_path / "2",
        **{CURVE: [(300, 4.0)], COUNT: [(10, 1.0)], BEST_STEP: [(300, 200.0)]},
        **{"eval/episodic_return": [(1, 7.0)]},
    )
    # What the first has written meanwhile is still taken over, at its own place.
    curves.begin(second, Shift(steps=120, episodes=4, judged=2))
    curves.close()
    assert _points(tmp_path, CURVE) == [(10, 1.0), (90, 2.0), (100, 3.0), (420, 4.0)]
    assert _points(tmp_path, COUNT) == [(90, 4.0), (130, 5.0)]
    assert _points(tmp_path, BEST_STEP) == [(420, 320.0)]
    assert _points(tmp_path, "eval/episodic_return") == [(1, 5.0), (2, 6.0), (3, 7.0)]
    assert set(MetricReader(tmp_path).read(CURVE)["wall"].tolist()) == {7.0}
    assert (curves.reached, curves.judged) == (420, 3)


def test_every_phase_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where phases share a run directory; a training outside of a script has none."""
    monkeypatch.delenv(SCRIPT_DIR, raising=False)
    assert curves_folder(tmp_path) == tmp_path
    monkeypatch.setenv(SCRIPT_DIR, str(tmp_path))
    assert len({curves_folder(tmp_path) for _ in range(3)}) == 3


def test_the_event_files_of_a_phase_are_not_among_those_of_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a phase shares the run directory: its steps begin at 0, the script's do not."""
    monkeypatch.delenv(SCRIPT_DIR, raising=False)
    whole = event_folder(tmp_path, "tensorboard")
    assert whole == tmp_path / "tensorboard"
    monkeypatch.setenv(SCRIPT_DIR, str(tmp_path))
    assert event_folder(tmp_path / "main", "tensorboard") == tmp_path / "main" / "tensorboard"
    assert not event_folder(tmp_path, "tensorboard").is_relative_to(whole)


# One phase as the worker would say it: what it stores, and the lines about it.
PHASE = """
import json, sys
from mosaic.runs.metric_writer import MetricWriter
told, stored = json.loads(sys.argv[1])
if stored:
    with MetricWriter(told[0]["curves"]) as writer:
        for tag, points in stored.items():
            for step, value in points:
                writer.add(tag, step, value)
for event in told:
    print(json.dumps(event, separators=(",", ":")))
"""


def _phase(folder: Path, first: int, last: dict[str, float], stored: dict[str, Points]) -> str:
    mode = "resume_training" if first else "train"
    began = {"event": "run_started", "algo": "x", "env_id": "y", "mode": mode, "first_step": first}
    told = [
        {**began, "curves": str(folder)} if stored else began,
        {"event": "metrics", "step": last.pop("step"), "total": 9, "values": last},
        {"event": "run_completed"},
    ]
    return f"python phase.py {shlex.quote(json.dumps([told, stored]))}\n"


def test_the_run_counts_what_its_phases_count(tmp_path: Path) -> None:
    """Fresh, continued, continued from before the last one, and a program without curves."""
    script, run = tmp_path / "all.sh", tmp_path / "run"
    run.mkdir()
    (run / "phase.py").write_text(PHASE)
    folders = [tmp_path / "phases" / str(number) for number in range(3)]
    script.write_text(
        "# @phases a, b, a again, other\n# @total_timesteps 450\nset -eu\n"
        + _phase(folders[0], 0, {"step": 100, EPISODES: 5}, {CURVE: [(90, 1.0)], COUNT: [(90, 5)]})
        + _phase(folders[1], 0, {"step": 200, EPISODES: 2}, {CURVE: [(9, 2.0)], COUNT: [(9, 2)]})
        + _phase(
            folders[2], 100, {"step": 150, EPISODES: 6}, {CURVE: [(140, 3)], COUNT: [(140, 6)]}
        )
        + _phase(run, 0, {"step": 50, RETURN: 4.0}, {})
    )
    worker = harness.run(run, "--script", str(script))
    begun = [(event["name"], event["step"]) for event in worker.events("phase_started")]
    assert begun == [("a", 0), ("b", 100), ("a again", 300), ("other", 350)]
    steps = [(event["step"], event["total"]) for event in worker.events("metrics")]
    assert steps[-1] == (400, 450)
    assert _points(run, CURVE) == [(90, 1.0), (109, 2.0), (340, 3.0), (400, 4.0)]
    assert _points(run, COUNT) == [(90, 5.0), (109, 7.0), (340, 8.0)]


def test_an_evaluation_inside_a_script_is_no_training(tmp_path: Path) -> None:
    """Its episodes are no steps, and its return does not replace that of training."""
    script, run = tmp_path / "all.sh", tmp_path / "run"
    run.mkdir()
    (run / "phase.py").write_text(PHASE)
    judged = {"eval/episodic_return": [(1, 8.0), (2, 9.0)]}
    evaluations = [_phase(tmp_path / name, 0, {"step": 2, RETURN: 8.5}, judged) for name in "ab"]
    script.write_text(
        "set -eu\n"
        + _phase(tmp_path / "t", 0, {"step": 100, RETURN: 1.0}, {CURVE: [(90, 1.0)]})
        + "".join(evaluations).replace('"mode": "train"', '"mode": "policy_eval"')
    )
    worker = harness.run(run, "--script", str(script))
    told = [value for event in worker.events("metrics") for value in event["values"].values()]
    assert told == [1.0]
    assert worker.events("metrics")[-1]["step"] == 100
    assert [step for step, _ in _points(run, "eval/episodic_return")] == [1, 2, 3, 4]
    assert _points(run, CURVE) == [(90, 1.0)]
