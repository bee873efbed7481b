"""The reasoning of one agent: percepts in, one decision out, by the user's AgentSpeak plans."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import agentspeak
import agentspeak.lexer
import agentspeak.parser
import agentspeak.runtime

from spade_bdi_rl_worker.errors import PlanError
from spade_bdi_rl_worker.plans import DECISIONS, captured_log

# Far more than any plan needs: what runs longer calls itself.
MAX_CYCLES = 1000
# What a percept may be; None takes the belief away.
Percept: TypeAlias = int | float | str | None
_PERCEPT = frozenset([agentspeak.Literal("source", (agentspeak.Literal("percept"),))])
_ACT = agentspeak.Literal("act", ())


class Mind:
    """Beliefs and plans of an AgentSpeak agent, stepped only when there is something to decide.

    `register` must run before the agent is built (its plans look the actions up by name); `attach`
    gives the mind the built agent.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._agent: agentspeak.runtime.Agent = None
        self._percepts: dict[str, agentspeak.Literal] = {}
        self._labels: dict[int, str] = {}
        self._decision = ""
        self._reports = _Reports()
        self.plan = ""

    def register(self, actions: agentspeak.Actions) -> None:
        """Add the decisions, and `.random` from the run's own random numbers."""
        for name in DECISIONS:
            actions.add(f".{name}", 0)(self._decider(name))
        actions.add_function(".random", (), self._chance)

    def attach(self, agent: agentspeak.runtime.Agent) -> None:
        """Take a built AgentSpeak agent."""
        self._agent = agent
        for plans in agent.plans.values():
            for plan in plans:
                label = plan.annotation.functor if plan.annotation else plan.name()
                # An intention knows its plan's body only, so labels are found by that.
                self._labels[id(plan.body)] = str(label)

    def perceive(self, percepts: Mapping[str, Percept]) -> None:
        """Bring beliefs about the world up to date; `None` means there is none."""
        for name, value in percepts.items():
            known = self._percepts.get(name)
            # Most percepts stay the same from step to step, and adding one costs a cycle.
            if known is not None and value == known.args[0]:
                continue
            if known is not None:
                self._agent.beliefs[(name, 1)].discard(known)
                del self._percepts[name]
            if value is None:
                continue
            belief = agentspeak.Literal(name, (value,), _PERCEPT)
            self._percepts[name] = belief
            self._call(agentspeak.GoalType.belief, belief)

    def decide(self) -> str:
        """Pursue the goal `!act` until a plan has decided.

        Raises:
            PlanError: No plan applies, a plan fails, or none of them decides.
        """
        self._decision = ""
        self._call(agentspeak.GoalType.achievement, _ACT)
        # The call pushed the intention of the plan that was chosen: its body is on top.
        chosen = self._agent.intentions[-1][-1]
        self.plan = self._labels.get(id(chosen.instr), "")
        self.run()
        if not self._decision:
            raise PlanError(
                f"the plan {self.plan!r} for +!act decided nothing",
                "let every plan for +!act end in .explore, .exploit or .retreat, without .wait",
            )
        return self._decision

    def run(self) -> None:
        """Run every intention that is ready until none is."""
        with captured_log(self._reports):
            try:
                for _ in range(MAX_CYCLES):
                    if not self._agent.step():
                        return
            except agentspeak.AggregatedError:
                raise PlanError(self._reports.take()) from None
        raise PlanError(
            f"the plans ran {MAX_CYCLES} steps without an end",
            "a plan probably calls itself; use beliefs instead of recursion",
        )

    def beliefs(self) -> list[str]:
        """Every belief as AgentSpeak text, percepts without their source."""
        percepts = [f"{name}({_short(b.args[0])})" for name, b in self._percepts.items()]
        return sorted(percepts + self.own_beliefs())

    def own_beliefs(self) -> list[str]:
        """Beliefs that are not percepts: what a checkpoint has to keep."""
        return sorted(
            term_text(belief)
            for group in self._agent.beliefs.values()
            for belief in group
            if belief.annots != _PERCEPT
        )

    def recall(self, beliefs: list[str]) -> None:
        """Replace every belief that is not a percept, without waking any plan."""
        for group in self._agent.beliefs.values():
            group.difference_update([b for b in group if b.annots != _PERCEPT])
        for text in beliefs:
            belief = _parse_belief(text)
            self._agent.beliefs[belief.literal_group()].add(belief)

    def _decider(self, name: str) -> Callable[..., Iterator[None]]:
        def decide(*_: object) -> Iterator[None]:
            self._decision = name
            yield

        return decide

    def _call(self, goal_type: agentspeak.GoalType, term: agentspeak.Literal) -> None:
        try:
            self._agent.call(
                agentspeak.Trigger.addition, goal_type, term, agentspeak.runtime.Intention(), True
            )
        except agentspeak.AslError as error:
            raise PlanError(
                str(error),
                "add a last plan without a condition, such as:  +!act <- .exploit.",
            ) from error


class _Reports(logging.Handler):
    """What AgentSpeak says when a plan fails while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        place = getattr(record, "loc", None)
        where = f"line {place.lineno}, column {place.startcol + 1}: " if place else ""
        self._texts.append(f"{where}{record.getMessage()}")

    def take(self) -> str:
        texts, self._texts = self._texts, []
        return "a plan failed: " + ("; ".join(texts) or "no reason given")


def term_text(term: object) -> str:
    """A belief as text that AgentSpeak can read again.

    Names that AgentSpeak could not read, such as the JID of a sender, become strings.
    """
    if not isinstance(term, agentspeak.Literal):
        if isinstance(term, tuple):
            return f"[{', '.join(map(term_text, term))}]"
        if isinstance(term, float) and term.is_integer():
            return str(int(term))
        return json.dumps(term) if isinstance(term, str | bool) else repr(term)
    if not re.fullmatch(r"~?[a-z]\w*", term.functor):
        return json.dumps(str(term.functor))
    arguments = f"({', '.join(map(term_text, term.args))})" if term.args else ""
    notes = f"[{', '.join(sorted(map(term_text, term.annots)))}]" if term.annots else ""
    return f"{term.functor}{arguments}{notes}"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _parse_belief(text: str) -> agentspeak.Literal:
    log = agentspeak.Log(logging.getLogger(__name__), 1)
    tokens = agentspeak.lexer.TokenStream(agentspeak.StringSource("beliefs", f"{text}."), log)
    ast = agentspeak.parser.parse("beliefs", tokens, log)
    return ast.beliefs[0].accept(agentspeak.runtime.BuildTermVisitor({}))
