"""AgentSpeak plans: what is refused, what a mind decides, what it remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import agentspeak
import agentspeak.runtime
import agentspeak.stdlib
import pytest

from spade_bdi_rl_worker.errors import PlanError
from spade_bdi_rl_worker.mind import Mind
from spade_bdi_rl_worker.plans import check_plan, find_plan, shipped_plans

ACT = (("+!", "act", 0),)


def mind_of(source: str, chance: Callable[[], float] = lambda: 0.5) -> Mind:
    mind = Mind(chance)
    actions = agentspeak.Actions(agentspeak.stdlib.actions)
    mind.register(actions)
    text = agentspeak.StringSource("mind.asl", source)
    mind.attach(agentspeak.runtime.Environment().build_agent(text, actions))
    return mind


@pytest.mark.parametrize("name", shipped_plans())
def test_every_shipped_plan_can_be_used(name: str) -> None:
    """The plans that come with the worker have no mistakes."""
    assert check_plan(find_plan(name), (("+", "report", 3),) if name == "coach" else ACT) is None


@pytest.mark.parametrize(
    ("source", "place", "says"),
    [
        ("// a comment\n+!act : <- .explore.\n", "bad.asl:2:9", "expected term"),
        ("+!act <- .exploit.\n+!act <- .explore", "bad.asl:2:10", "unexpected end of file"),
        ("confident(0.5)\n!go.\n", "bad.asl:2:1", "expected '.' after belief"),
        ("+!act <- .exploit.\n$\n", "bad.asl:2:1", "illegal character '$'"),
        ("\n\n+!act <- .explor.\n", "bad.asl:3:10", "did you mean '.explore'?"),
        ("+!act <- .random(X, Y).\n", "bad.asl:1:10", "no action .random with 2 arguments"),
    ],
)
def test_a_mistake_is_named_with_line_and_column(
    tmp_path: Path, source: str, place: str, says: str
) -> None:
    """A plan with a mistake is refused before anything starts, and the place is named."""
    path = tmp_path / "bad.asl"
    path.write_text(source)
    with pytest.raises(PlanError) as caught:
        check_plan(path, ACT)
    assert place in str(caught.value)
    assert says in str(caught.value)


def test_a_plan_that_never_acts_is_refused(tmp_path: Path) -> None:
    """Without a plan for +!act the agent could do nothing; the refusal shows the line to add."""
    path = tmp_path / "idle.asl"
    path.write_text("+state(S) <- +seen(S).\n")
    with pytest.raises(PlanError, match=r"no plan for \+!act") as caught:
        check_plan(path, ACT)
    assert "+!act <- .exploit." in caught.value.hint


def test_a_misspelled_plan_name_gets_the_nearest_one() -> None:
    """A typo in the plan's name is answered with the name that was meant."""
    with pytest.raises(PlanError, match="did you mean 'cautious'"):
        find_plan("cautios")


def test_beliefs_decide_between_exploring_exploiting_and_retreating() -> None:
    """The default mind follows the coach's word, the schedule and what it has learned."""
    draws = iter([0.5] * 1000)
    mind = mind_of(find_plan("balanced").read_text(), lambda: next(draws))
    mind.perceive({"epsilon": 0.9})
    assert mind.decide() == "explore"
    mind.perceive({"epsilon": 0.1})
    assert mind.decide() == "exploit"
    assert mind.plan == "trust"
    mind.recall(["advice(retreat)"])
    assert mind.decide() == "exploit", "nothing to retreat to yet"
    mind.perceive({"known_plan": 0.7})
    assert mind.decide() == "retreat"
    assert mind.plan == "fall_back"


def test_percepts_wake_plans_and_replace_each_other() -> None:
    """A new percept replaces the old one and may make the agent believe something else."""
    mind = mind_of("+success_rate(R) : R > 0.5 <- +confident.\n+!act : confident <- .exploit.\n"
                   "+!act <- .explore.\n")  # fmt: skip
    mind.perceive({"success_rate": 0.2})
    assert mind.decide() == "explore"
    mind.perceive({"success_rate": 0.8})
    mind.run()
    assert mind.decide() == "exploit"
    assert mind.beliefs() == ["confident", "success_rate(0.8)"]
    assert mind.own_beliefs() == ["confident"]


def test_a_mind_remembers_its_own_beliefs_through_a_checkpoint() -> None:
    """Beliefs written down and read again are the same beliefs."""
    before = ['advice(exploit)[source("coach@localhost")]', 'tried("left side", 3)']
    mind = mind_of("old.\n+!act <- .exploit.\n")
    mind.recall(before)
    assert mind.own_beliefs() == before


def test_a_plan_that_fails_while_it_runs_names_its_place() -> None:
    """A mistake that only shows at run time still has a line and a column."""
    mind = mind_of("+!act <- .exploit;\n    !nowhere.\n")
    with pytest.raises(PlanError, match=r"line 2, column 5: no applicable plan for \+!nowhere/0"):
        mind.decide()


def test_a_plan_without_a_decision_is_an_error_not_a_hang() -> None:
    """An act plan must decide; one that waits or does nothing says so."""
    for body in ("+done", ".wait(60000)"):
        with pytest.raises(PlanError, match="decided nothing"):
            mind_of(f"+!act <- {body}.\n").decide()


def test_endless_recursion_is_stopped() -> None:
    """A plan that calls itself for ever is reported."""
    with pytest.raises(PlanError, match="without an end"):
        mind_of("+!act <- !act.\n").decide()


def test_chance_in_plans_comes_from_the_run() -> None:
    """`.random` draws from the run's own random numbers, so a run can be repeated."""
    draws = [0.1, 0.9, 0.1, 0.9]
    mind = mind_of("+!act : .random(X) & X < 0.5 <- .explore.\n+!act <- .exploit.\n",
                   lambda: draws.pop(0))  # fmt: skip
    assert Counter(mind.decide() for _ in range(4)) == {"explore": 2, "exploit": 2}
