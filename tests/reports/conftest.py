"""Reports about runs of a worker whose curve is known beforehand."""

import pytest
from sweep.conftest import python_path as python_path

from mosaic.reports.content import Report, RunFacts, Section
from mosaic.reports.figures import figures_of
from mosaic.reports.gathering import compared_tables, programs_of
from mosaic.reports.repeating import commands_again
from mosaic.statistics import tables
from mosaic.statistics.comparison import Question, Trained, compare

HOSTILE = '</script><script>document.title="owned"</script><img src=http://example.org/x>'


def trained(algo: str, env_id: str, seed: int) -> Trained:
    """A run whose curve is a line: steeper for the second algorithm, higher for larger seeds."""
    import numpy as np

    steps = np.arange(100.0, 1100.0, 100.0)
    slope = {"ppo": 1.0, "dqn": 1.5}[algo]
    run_id = f"01HZ{algo}{env_id}{seed:06d}".upper()
    done = {"done": True, "state": "completed", "step": 1000}
    curve = (steps, steps * slope + seed)
    return Trained(run_id, HOSTILE, algo, env_id, seed, {"gamma": 0.9}, **done, curve=curve)


@pytest.fixture(scope="session")
def report() -> Report:
    """Two algorithms, two environments, four seeds; a name that tries to break out of the page."""
    runs = [
        trained(algo, env_id, seed)
        for algo in ("ppo", "dqn")
        for env_id in ("CartPole-v1", "Acrobot-v1")
        for seed in range(4)
    ]
    question = Question("charts/episodic_return")
    found = compare(runs, question)
    facts = tuple(
        RunFacts(
            run_id=run.run_id,
            name=run.name,
            group=run.algo,
            algo=run.algo,
            env_id=run.env_id,
            seed=run.seed,
            mode="train",
            outcome="completed",
            steps=run.step,
            created_at=0.0,
            seconds=12.0,
            notes=HOSTILE,
            tags=("experiment=study",),
            parent_run_id="",
            settings=run.settings,
            config={"algo": run.algo},
            provenance={"python": "3.11", "packages": {"numpy": "2"}},
        )
        for run in runs
    )
    section = Section(
        name="experiment-study",
        title=HOSTILE,
        comparison=found,
        figures=tuple(figures_of("experiment-study", found, runs)),
        tables=tuple(compared_tables(found)),
        notes=found.notes,
        latex=tables.latex(found),
    )
    return Report(
        title=HOSTILE,
        made_at=0.0,
        version="1",
        sections=(section,),
        runs=facts,
        notes=HOSTILE,
        again=commands_again([("experiment", "study")], facts, question),
        programs=programs_of([section]),
    )
