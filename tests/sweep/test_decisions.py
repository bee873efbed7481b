"""What a sweep proposes, prunes and counts, decided without a daemon."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mosaic.config.build import read_config
from mosaic.errors import InvalidConfigError
from mosaic.records import Outcome, Progress, RunRecord, State
from mosaic.sweep.objective import (
    Curve,
    Objective,
    joint_rungs,
    passed_rungs,
    read_objective,
    rungs,
)
from mosaic.sweep.plan import Settled, SweepPlan, hopeless, run_key, trouble
from mosaic.sweep.space import Choices, Range, grid, read_space, space_from_dict, space_to_dict
from mosaic.sweep.study import SweepStudy, propose, write_study

BOUNDS = {"low": 0.0, "high": 1.0, "low_open": True, "high_open": False, "choices": ()}
ARGUMENTS: list[dict[str, Any]] = [
    {"name": "learning_rate", "type": "float", "default": 1e-3, "range": BOUNDS},
    {"name": "num_steps", "type": "int", "default": 128, "range": None},
    {"name": "norm_adv", "type": "bool", "default": True, "range": None},
    {"name": "target_kl", "type": "float | None", "default": None, "range": None},
    {"name": "seed", "type": "int", "default": 1, "range": None},
]
CONFIG = {
    "run_name": "",
    "artifacts": {},
    "metadata": {
        "worker": {
            "type": "cleanrl",
            "config": {
                "algo": "ppo",
                "env_id": "CartPole-v1",
                "seed": 3,
                "total_timesteps": 100,
                "extras": {"algo_params": {"num_envs": 2}},
            },
        },
        "tags": ["mine"],
    },
}


def _plan(*params: str, **fields: Any) -> SweepPlan:
    return SweepPlan(read_config(CONFIG), True, read_space(params, ARGUMENTS, "ppo"), **fields)


def test_parameters_are_read_with_the_types_of_the_script() -> None:
    """Lists, ranges, steps, logarithms, switches and nothing are what the script takes."""
    space = read_space(
        [
            "learning-rate=log:1e-4..1e-2",
            "num-steps=64..256:64",
            "--norm-adv=true,false",
            "target_kl=none,0.1",
        ],
        ARGUMENTS,
        "ppo",
    )
    assert space == {
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "num_steps": Range(64, 256, step=64, integer=True),
        "norm_adv": Choices((True, False)),
        "target_kl": Choices((None, 0.1)),
    }
    assert space_from_dict(space_to_dict(space)) == space


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learning-rat=1,2", "did you mean 'learning-rate'?"),
        ("learning-rate", "write NAME=A,B,C"),
        ("learning-rate=", "write NAME=A,B,C"),
        ("learning-rate=0.1..2", "must be above 0 and at most 1, not 2"),
        ("learning-rate=0,0.1", "must be above 0 and at most 1, not 0"),
        ("learning-rate=0.5..0.1", "the smaller end comes first"),
        ("num-steps=log:0..8", "begins above 0"),
        ("num-steps=1..8:0", "a step is above 0"),
        ("learning-rate=1e-6..1e-1:log", "here: learning-rate=log:1e-6..1e-1"),
        ("learning-rate=log:1e-6..1e-1:log", "here: learning-rate=log:1e-6..1e-1"),
        ("lr=1e-3,1e-4", "did you mean 'learning-rate'?"),
        ("num-steps=1.5,2", "takes int, not '1.5'"),
        ("num-steps=inf,2", "takes int, not 'inf'"),
        ("num-steps=2,2", "lists a value twice"),
        ("norm-adv=0..1", "list its values"),
        ("seed=1,2", "--seeds"),
    ],
)
def test_a_wrong_parameter_gets_help(text: str, words: str) -> None:
    """Every refusal says what is allowed."""
    with pytest.raises(InvalidConfigError) as refused:
        read_space([text], ARGUMENTS, "ppo")
    assert words in str(refused.value)


def test_all_problems_are_named_at_once() -> None:
    """Not only the first one; a parameter given twice is one too, and so is none at all."""
    with pytest.raises(InvalidConfigError) as refused:
        read_space(["nums=1", "num-steps=a", "num-steps=4", "num-steps=8"], ARGUMENTS, "ppo")
    assert len(refused.value.problems) == 3
    with pytest.raises(InvalidConfigError) as refused:
        read_space(["lr=1e-6..1e-1:log"], ARGUMENTS, "ppo")
    assert "log:LOW..HIGH" in str(refused.value)
    assert "learning-rate" in str(refused.value)
    with pytest.raises(InvalidConfigError, match="something to vary"):
        read_space([], ARGUMENTS, "ppo")


def test_a_grid_is_every_combination() -> None:
    """The product, in order; a range without a step has no grid."""
    points = grid(_plan("num-steps=1..3", "norm-adv=yes,no").space)
    assert len(points) == 6
    assert points[1] == {"num_steps": 1, "norm_adv": False}
    assert points[-1] == {"num_steps": 3, "norm_adv": False}
    with pytest.raises(InvalidConfigError, match="a grid needs values"):
        grid(_plan("learning-rate=0.1..0.2").space)


def test_proposals_stay_inside_and_repeat() -> None:
    """Samplers keep to the ranges, and the same seed gives the same proposals."""
    for sampler in ("tpe", "random"):
        plan = _plan("learning-rate=log:1e-4..1e-2", "num-steps=8..20:4", sampler=sampler)
        proposals = propose(plan)
        assert proposals == propose(plan)
        assert len(proposals) == 5
        assert all(1e-4 <= each["learning_rate"] <= 1e-2 for each in proposals)
        assert {each["num_steps"] for each in proposals} <= {8, 12, 16, 20}


def test_a_run_of_a_trial_is_an_ordinary_configuration() -> None:
    """Parameters, seeds and tags are in it, and the plan itself stays as it was."""
    plan = _plan("num-steps=8,16", seeds=2)
    config = plan.run_config("ID", 4, 1, {"num_steps": 16})
    assert config.worker.extras.algo_params == {"num_envs": 2, "num_steps": 16}
    assert config.worker.seed == 4
    assert config.metadata.tags == ["sweep=ID", "trial=4", "mine"]
    assert plan.config.document() == CONFIG
    assert SweepPlan.from_dict(plan.to_dict()) == plan
    assert plan.train_command({"num_steps": 16, "norm_adv": False, "target_kl": None}) == (
        "mosaic train ppo --env-id CartPole-v1 --total-timesteps 100 --seed 3 --num-envs 2 "
        "--num-steps 16 --no-norm-adv --target-kl none"
    )
    keys = {run_key("ID", t, n, e) for t in (0, 1) for n in (0, 1) for e in (False, True)}
    assert len(keys) == 8
    assert "ID" in keys


def test_the_end_of_a_curve_counts() -> None:
    """`last` is the mean of the last tenth, of ten points or a fifth of them at least."""
    last = Objective("losses/value_loss")
    curve = Curve(range(1, 1001), [float(step > 900) for step in range(1, 1001)])
    assert last.score(curve) == 1.0
    assert replace(last, summary="mean").score(curve) == pytest.approx(0.1)
    assert replace(last, summary="max").score(curve) == 1.0
    late = Curve([*range(99), 1000], [*[0.0] * 99, 5.0])
    assert last.score(late) == 0.5
    few = Curve([1, 2, 3, 4, 5, 100], [9.0, 9.0, 9.0, 9.0, 1.0, 3.0])
    assert last.score(few) == 2.0
    assert last.score(Curve([], [])) is None


def test_the_value_of_a_return_is_the_number_in_the_table() -> None:
    """Each point of the return is a mean over episodes already: nothing is averaged twice."""
    curve = Curve([10, 20, 30], [1.0, 2.0, 30.0])
    assert Objective().score(curve) == 30.0
    assert Objective("eval").score(curve) == 30.0


def test_rungs_are_the_tenths_that_all_seeds_have_passed() -> None:
    """A later point never changes an earlier rung, and the slowest seed sets the pace."""
    curve = Curve([15, 25, 95], [1.0, 3.0, 100.0])
    assert passed_rungs(Progress(step=35, total=100)) == 3
    assert passed_rungs(Progress(step=100, total=100)) == 9
    assert passed_rungs(Progress(step=5, total=0)) == 0
    assert rungs(curve, 100, 3, Objective()) == {2: 1.0, 3: 3.0}
    assert joint_rungs([{2: 1.0, 3: 2.0}, {2: 3.0}]) == {2: 2.0}
    assert joint_rungs([]) == {}


def test_a_rung_counts_once_all_its_points_have_arrived() -> None:
    """A point may still be on its way while the run's progress says that it passed the rung."""
    assert rungs(Curve([15, 25], [1.0, 3.0]), 100, 3, Objective()) == {2: 1.0}
    assert rungs(Curve([15, 30], [1.0, 3.0]), 100, 3, Objective()) == {2: 1.0}
    assert rungs(Curve([], []), 100, 3, Objective()) == {}


def test_nothing_is_pruned_before_a_fifth_of_the_way(tmp_path: Path) -> None:
    """A trial far behind the median at a tenth is kept, at two tenths it is not."""
    plan = _plan("num-steps=8,16", prune_after=1)
    write_study(tmp_path, tmp_path.name, plan, propose(plan))
    study = SweepStudy.load(tmp_path)
    good = study.ask()
    assert study.should_prune(good, {1: 100.0, 2: 100.0}) is None
    study.complete(good, 100.0)
    assert study.should_prune(study.ask(), {1: 0.0, 2: 0.0}) == 2
    study.close()


def test_objectives_are_read_or_explained() -> None:
    """A scalar, a scalar with its summary, or an evaluation."""
    assert read_objective("eval") == Objective("eval")
    assert read_objective("losses/value_loss:mean") == Objective("losses/value_loss", "mean")
    assert read_objective("charts/SPS") == Objective("charts/SPS", "last")
    with pytest.raises(InvalidConfigError, match="last, mean, max"):
        read_objective("charts/SPS:median")


def test_a_trial_with_a_broken_run_does_not_count() -> None:
    """A failed, cancelled or lost run is named; one at its time limit has a curve that counts."""
    good = RunRecord(run_id="A", state=State.TERM, outcome=Outcome.TIME_LIMIT)
    bad = RunRecord(run_id="B", state=State.TERM, outcome=Outcome.FAILED, reason="out of memory")
    assert trouble([good]) == ""
    assert trouble([good, bad]) == "run B ended failed: out of memory"
    assert trouble([replace(bad, state=State.EXEC)]) == ""


def test_three_failures_at_the_beginning_are_enough() -> None:
    """A sweep whose first trials all fail stops; a failure later on does not stop it."""
    quick, slow = Settled("fail", 2.0, "no such file"), Settled("fail", 900.0, "diverged")
    assert hopeless([slow, slow, quick]) == "the first 3 trials failed: no such file"
    assert not hopeless([quick, quick])
    # Trials that train for long before they fail have bad settings; others may be better.
    good = Settled("complete")
    assert not hopeless([good, slow, slow, slow])
    assert not hopeless([good, quick, slow, quick])
    assert "died within 30 seconds: no such file" in hopeless([good, quick, quick, quick])
