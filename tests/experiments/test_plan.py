"""What an experiment consists of, decided without a daemon."""

from pathlib import Path

import pytest

from mosaic.cli.experiment_file import ExperimentSpec, plan_of, read_spec
from mosaic.config import build
from mosaic.errors import InvalidConfigError
from mosaic.experiments.plan import identity, make_plan, with_seeds
from mosaic.experiments.summary import experiment_of, summarise
from mosaic.records import Outcome, Progress, RunRecord, State

FILE = """
name = "study"
algorithms = ["ppo", "dqn"]
environments = ["CartPole-v1", "Acrobot-v1"]
seeds = 2
total_timesteps = 2048
tags = ["mine"]
[grid]
learning_rate = [1e-3, 3e-4]
[settings]
num_envs = 1
"""


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_a_file_is_every_combination(tmp_path: Path) -> None:
    """Two algorithms, two environments, two learning rates and two seeds are sixteen runs."""
    plan = plan_of(read_spec(_written(tmp_path, FILE)))
    runs = plan.runs()
    assert len(runs) == 16
    assert len({identity(run.document()) for run in runs}) == 16
    assert [run.worker.seed for run in runs] == [1] * 8 + [2] * 8
    first = runs[0]
    assert first.run_name == "study · ppo CartPole-v1 learning_rate=0.001 · seed 1"
    assert first.metadata.tags == ["experiment=study", "mine"]
    assert first.worker.total_timesteps == 2048
    assert first.worker.extras.algo_params == {"num_envs": 1, "learning_rate": 0.001}


def test_flags_and_a_file_make_the_same_experiment(tmp_path: Path) -> None:
    """The same runs, whichever way they are asked for."""
    spec = ExperimentSpec(
        name="study",
        algorithms=("ppo", "dqn"),
        environments=("CartPole-v1", "Acrobot-v1"),
        seeds=(1, 2),
        grid=("learning-rate=1e-3,3e-4",),
        settings=("--num-envs", "1"),
        options=read_spec(_written(tmp_path, FILE)).options,
    )
    documents = [run.document() for run in plan_of(spec).runs()]
    assert documents == [
        run.document() for run in plan_of(read_spec(tmp_path / "study.toml")).runs()
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("algoritms = ['ppo']", "did you mean 'algorithms'"),
        ("algorithms = 'ppo'", "algorithms must be a list"),
        ("algorithms = []", "needs an algorithm"),
        ("algorithms = ['ppo']\nseeds = 0", "seeds must be a number"),
        ("algorithms = ['ppo']\nseeds = [1, 1]", "a seed is given twice"),
        ("algorithms = ['ppo']\nname = 'a b'", "cannot name an experiment"),
        ("algorithms = ['ppo']\n[grid]\nlearning_rte = [1]", "did you mean 'learning-rate'"),
        ("algorithms = ['ppo']\n[grid]\nlearning_rate = 1", "must be a list of values"),
        ("algorithms = ['ppo'", "cannot be read"),
        ("algorithms = ['ppo']\nseeds = 3000", "at most 2,000"),
    ],
)
def test_a_wrong_file_is_refused_with_help(tmp_path: Path, text: str, sentence: str) -> None:
    """Before anything starts, with what is allowed."""
    with pytest.raises(InvalidConfigError) as refused:
        plan_of(read_spec(_written(tmp_path, text)))
    assert sentence in refused.value.problems[0].message


def test_seeds_are_added_to_every_configuration() -> None:
    """What is there is not repeated, and names and tags are those of the experiment."""
    spec = ExperimentSpec("more", ("ppo",), seeds=(1, 2), grid=("learning-rate=1e-3,3e-4",))
    documents = [run.document() for run in plan_of(spec).runs()]
    more = with_seeds(documents, (2, 3))
    assert [run.worker.seed for run in more] == [3, 3]
    assert more[0].run_name == "more · ppo learning_rate=0.001 · seed 3"
    assert more[0].metadata.tags == ["experiment=more"]
    whole = [*documents, *(run.document() for run in more)]
    assert with_seeds(whole, (1, 2, 3)) == []


def test_an_experiment_without_runs_is_refused() -> None:
    """A plan always has something to do."""
    config = build.train(build.Worker("example"), "darts")
    with pytest.raises(InvalidConfigError):
        make_plan("empty", [config], ())


def _run(run_id: str, *tags: str, **fields: object) -> RunRecord:
    return RunRecord(run_id=run_id, tags=tags, algo="ppo", env_id="A", seed=1, **fields)  # type: ignore[arg-type]


def test_runs_become_one_row() -> None:
    """Counts, progress and the time left are those of all runs; sweeps are experiments too."""
    done = {"state": State.TERM, "outcome": Outcome.COMPLETED, "started_at": 1.0}
    runs = [
        _run("1", "experiment=a", **done, finished_at=101.0),
        _run("2", "experiment=a", state=State.TERM, outcome=Outcome.FAILED),
        _run("3", "experiment=a", state=State.EXEC, progress=Progress(fraction=0.5, eta_s=40.0)),
        _run("4", "experiment=a"),
        _run("5", "sweep=X", "trial=0"),
        _run("6", "other"),
    ]
    sweep, experiment = summarise(runs)
    assert (sweep.kind, sweep.name, sweep.run_ids) == ("sweep", "X", ("5",))
    assert (experiment.completed, experiment.unsuccessful) == (1, 1)
    assert (experiment.running, experiment.queued) == (1, 1)
    assert experiment.fraction == pytest.approx(2.5 / 4)
    assert experiment.eta_s == pytest.approx(140.0)
    assert not experiment.ended
    assert experiment_of(["experiment="]) is None
