"""Experiments in the window: one row, one notice, a grid in the form."""

from dataclasses import replace
from pathlib import Path

import pytest
from qtpy.QtWidgets import QInputDialog

from gym_gui.forms.registry import TRAIN
from gym_gui.forms.train_form import TrainForm
from gym_gui.models.draft_export import as_command, as_experiment_file
from gym_gui.models.form_grid import experiment_name, forecast, grid_configs, read_lines
from gym_gui.models.run_order import Group, View, arrange
from gym_gui.models.train_draft import TrainDraft
from mosaic.cli.experiment_file import plan_of, read_spec
from mosaic.errors import InvalidConfigError
from mosaic.records import Outcome, Progress, RunRecord, State

from .conftest import Driver, config_of
from .test_models import record

ARGUMENTS = [
    {"name": "learning_rate", "type": "float", "default": 1e-3, "range": None},
    {"name": "num_envs", "type": "int", "default": 4, "range": None},
]


def _members(count: int, **fields: object) -> list[RunRecord]:
    return [
        replace(record(run_id=f"E{n}", seed=n, **fields), tags=("experiment=study",))
        for n in range(count)
    ]


def test_an_experiment_is_one_row_that_opens_into_its_runs() -> None:
    """Folded it stands for all of its runs; other runs keep their own rows."""
    ended = _members(2, state=State.TERM, outcome=Outcome.COMPLETED)
    live = [replace(run, run_id=f"L{run.run_id}") for run in _members(1, state=State.EXEC)]
    other = record(run_id="other")
    view = View(by_experiment=True)
    rows = arrange([*ended, *live, other], None, view)
    groups = [row for row in rows if isinstance(row, Group)]
    assert len(rows) == 2
    assert groups[0].title == "study · 2 of 3 runs done"
    opened = arrange(
        [*ended, *live, other], None, replace(view, collapsed=frozenset([groups[0].key]))
    )
    assert len(opened) == 5


def test_the_row_of_a_sweep_says_what_was_searched() -> None:
    """Its id alone tells no one what it is; the end of the id tells two sweeps apart."""
    run = replace(record(run_id="01HZZZZZZZZZZZZZZZZZABCDEF"), tags=("sweep=01HZABCDEF", "trial=0"))
    [row, *_] = arrange([run], None, View(by_experiment=True))
    assert isinstance(row, Group)
    assert row.title == "sweep of ppo in CartPole-v1 (abcdef) · 0 of 1 runs done"


def test_the_grid_of_a_form_is_every_combination_with_every_seed() -> None:
    """`learning_rate=1e-3,3e-4; num_envs=4,8` and three seeds are twelve runs of one experiment."""
    draft = TrainDraft(run_name="my study", seed=5, seeds=3)
    assert read_lines("learning_rate=1e-3,3e-4; num_envs=4,8") == read_lines(
        "learning_rate=1e-3,3e-4 num_envs=4,8"
    )
    draft.vary = "learning_rate=1e-3,3e-4; num_envs=4,8"
    configs = grid_configs(draft, {"ppo": ARGUMENTS})
    assert len(configs) == 12
    assert {config.worker.seed for config in configs} == {5, 6, 7}
    assert configs[0].metadata.tags == ["experiment=my-study"]
    assert experiment_name(TrainDraft()).startswith("ppo-CartPole-v1-")
    with pytest.raises(InvalidConfigError, match="learning-rate"):
        grid_configs(replace(draft, vary="learning_rte=1"), {"ppo": ARGUMENTS})


def test_algorithms_and_environments_are_part_of_the_grid() -> None:
    """Two algorithms in two environments with five seeds are twenty runs of one experiment."""
    draft = TrainDraft(seeds=5, more_algos=["dqn"], more_envs=["Acrobot-v1"])
    arguments = {"ppo": ARGUMENTS, "dqn": ARGUMENTS[:1]}
    configs = grid_configs(draft, arguments)
    trained = {(one.worker.algo, one.worker.env_id, one.worker.seed) for one in configs}
    assert len(configs) == len(trained) == 20
    assert len({tuple(one.metadata.tags) for one in configs}) == 1
    command = as_command(draft)
    assert "--algo ppo" in command
    assert "--algo dqn --env-id Acrobot-v1 --seeds 5" in command
    # What only one of them has would be dropped in silence.
    with pytest.raises(InvalidConfigError, match="dqn has no parameter num_envs"):
        grid_configs(replace(draft, params={"num_envs": 8}), arguments)


def test_an_experiment_is_copied_as_a_file_that_makes_the_same_runs(tmp_path: Path) -> None:
    """`mosaic experiment run FILE.toml` has the runs of the form."""
    draft = TrainDraft(
        run_name="study", seed=3, seeds=2, total_timesteps=5000, more_algos=["dqn"],
        vary="learning_rate=1e-3,3e-4", tags=["paper"],
    )  # fmt: skip
    path = tmp_path / "study.toml"
    path.write_text(as_experiment_file(draft))
    spec = read_spec(path)
    assert (spec.name, spec.algorithms, spec.environments) == (
        "study", ["ppo", "dqn"], ["CartPole-v1"],
    )  # fmt: skip
    assert (spec.seeds, spec.grid) == ([3, 4], ["learning_rate=0.001,0.0003"])
    assert len(plan_of(spec).runs()) == 8


def test_a_forecast_comes_from_earlier_runs_alone() -> None:
    """Without any there is no time; with one, its speed, the runs and the slots count."""
    draft = TrainDraft(total_timesteps=36_000)
    assert forecast(20, draft, [], 2) == "20 runs"
    done = record(
        run_id="1",
        state=State.TERM,
        outcome=Outcome.COMPLETED,
        started_at=100.0,
        finished_at=110.0,
        progress=Progress(step=1000, total=1000),
    )
    assert forecast(20, draft, [done], 2).startswith("20 runs, about 1 h")


def test_the_form_says_how_many_runs_it_stands_for(driver: Driver) -> None:
    """The count is beside the grid and on the button; a wrong parameter is told at once."""
    form = driver.window.launch.show_form(TRAIN, "cleanrl")
    assert isinstance(form, TrainForm)
    driver.until(lambda: form.described == form.algo.text, "the parameters")
    form.seeds.setText("2")
    form.vary.setText("learning_rate=1e-3,3e-4")
    driver.until(lambda: form.bar.train.text() == "Train 4 runs", "the count")
    assert form.draft().vary == "learning_rate=1e-3,3e-4"
    assert "--param learning_rate=1e-3,3e-4" in as_command(form.draft())
    form.vary.setText("learning_rat=1e-3,3e-4")
    driver.until(lambda: any("learning-rate" in text for text in form.problems()), "the hint")
    assert not form.bar.train.isEnabled()
    form.vary.clear()
    form.seeds.setText("1")
    driver.until(lambda: form.bar.train.text() == "Train", "a single run")
    assert form.bar.train.isEnabled()


def test_an_experiment_gives_one_notice(driver: Driver) -> None:
    """When its last run ends, with how many completed; single seeds say nothing."""
    store = driver.services.store
    said: list[str] = []
    driver.services.notices.said.connect(lambda notice: said.append(notice.text))
    live = _members(2, state=State.EXEC, version=1)
    for run in live:
        store.put(run)
    for run in live:
        store.put(replace(run, state=State.TERM, outcome=Outcome.COMPLETED, version=2))
        driver.spin(0.05)
    assert said == ["Experiment study: 2 of 2 runs completed"]
    for run in live:
        store.drop(run.run_id)


def test_an_experiment_gets_more_seeds_and_another_priority(driver: Driver) -> None:
    """From the menu, for what is selected; a run of its own has no experiment to add seeds to."""
    small = config_of(seed=3, total_timesteps=20, extras={"step_ms": 0})
    small["metadata"]["tags"] = ["experiment=to grow"]
    first = driver.submit(small)
    alone = driver.submit(config_of())
    store, binder = driver.services.store, driver.window.binder
    driver.services.selection.select((alone,))
    driver.until(lambda: binder.actions["run.priority"].isEnabled(), "a priority can be given")
    assert not binder.actions["run.add_seeds"].isEnabled()
    _answer(driver, "run.priority", 7)
    driver.until(lambda: driver.run(alone).priority == 7, "the priority is changed")
    driver.services.selection.select((first,))
    driver.until(lambda: binder.actions["run.add_seeds"].isEnabled(), "seeds can be added")
    _answer(driver, "run.add_seeds", 2)

    def seeds() -> list[int]:
        mine = [run for run in store.runs.values() if "experiment=to grow" in run.tags]
        return sorted(run.seed or 0 for run in mine)

    driver.until(lambda: seeds() == [3, 4, 5], "both seeds are submitted")
    # Other tests share this daemon, and count its experiments.
    mine = [run.run_id for run in store.runs.values() if "experiment=to grow" in run.tags]
    for run_id in mine:
        driver.reaches(run_id, "TERM")
    driver.window.runs.delete([driver.run(run_id) for run_id in mine])
    driver.until(lambda: not seeds(), "they are deleted")


def _answer(driver: Driver, action: str, number: int) -> None:
    driver.window.binder.trigger(action)
    [question] = driver.window.findChildren(QInputDialog)
    question.setIntValue(number)
    question.accept()
    driver.until(lambda: not driver.window.findChildren(QInputDialog), "the question is closed")
