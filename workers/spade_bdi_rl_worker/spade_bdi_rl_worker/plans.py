"""AgentSpeak plan files: finding them, reading them, and saying exactly what is wrong with one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import agentspeak
import agentspeak.lexer
import agentspeak.parser
import agentspeak.runtime
import agentspeak.stdlib

from mosaic.workers import did_you_mean
from spade_bdi_rl_worker.errors import PlanError

SHIPPED = Path(__file__).with_name("asl")
DECISIONS = ("explore", "exploit", "retreat")
_UNKNOWN_ACTION = re.compile(r"no such action '(.+)/(\d+)'")


def shipped_plans() -> list[str]:
    """The names of the plans that come with the worker."""
    return sorted(path.stem for path in SHIPPED.glob("*.asl"))


def find_plan(name: str) -> Path:
    """A plan by shipped name or by path.

    Raises:
        PlanError: There is no such plan; the text names the nearest shipped one.
    """
    shipped = SHIPPED / f"{name}.asl"
    if re.fullmatch(r"\w+", name) and shipped.exists():
        return shipped
    path = Path(name).expanduser()
    if path.is_file():
        return path
    raise PlanError(
        f"there is no plan {name!r}{did_you_mean(name, shipped_plans())}",
        f"give the path of an .asl file or one of: {', '.join(shipped_plans())}",
    )


def known_actions() -> agentspeak.Actions:
    """The standard actions, and the decisions a mind can take."""
    actions = agentspeak.Actions(agentspeak.stdlib.actions)
    for decision in DECISIONS:
        actions.add(f".{decision}", 0)(_undecided)
    return actions


def _undecided(*_: object) -> Iterator[None]:
    yield


def check_plan(path: Path, must_have: tuple[tuple[str, str, int], ...] = ()) -> None:
    """Read a plan file as the agent would, and refuse it with every mistake at once.

    Args:
        path: The `.asl` file.
        must_have: Plans that have to exist, as (trigger text such as `+!act`, functor, arity).

    Raises:
        PlanError: The file is unreadable, has mistakes (each with line and column), uses an action
            that does not exist, or lacks a plan it must have.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"the plan {path} cannot be read: {error}") from error
    collector = _Collector()
    log = agentspeak.Log(collector, 10)
    tokens = agentspeak.lexer.TokenStream(agentspeak.StringSource(path.name, source), log)
    # The parser reports to the log and raises at the end of the file: all mistakes at once.
    ast: agentspeak.parser.AstAgent = None
    try:
        ast = agentspeak.parser.parse(str(path), tokens, log)
    except agentspeak.AggregatedError:
        pass
    if ast is not None and not collector.mistakes:
        _build(path, source, ast, collector)
        missing = _missing(ast, must_have)
        if missing and not collector.mistakes:
            raise PlanError(
                f"{path.name}: there is no plan for {missing}",
                f"add a plan such as:  {missing} <- .exploit.",
            )
    if collector.mistakes:
        raise PlanError("; ".join(collector.mistakes), "see docs/guides/bdi-plans.md")


def _build(path: Path, source: str, ast: agentspeak.parser.AstAgent, collector: _Collector) -> None:
    with captured_log(collector):
        try:
            agentspeak.runtime.Environment().build_agent_from_ast(
                agentspeak.StringSource(path.name, source), ast, known_actions()
            )
        except agentspeak.AggregatedError:
            pass
        except agentspeak.AslError as error:
            collector.mistakes.append(f"{path.name}: {error}")


def _missing(ast: agentspeak.parser.AstAgent, must_have: tuple[tuple[str, str, int], ...]) -> str:
    there = {
        (event.trigger.value + event.goal_type.value, event.head.functor, len(event.head.terms))
        for event in (plan.event for plan in ast.plans)
    }
    for trigger, functor, arity in must_have:
        if (trigger, functor, arity) not in there:
            arguments = f"({', '.join('ABCDEF'[:arity])})" if arity else ""
            return f"{trigger}{functor}{arguments}"
    return ""


# What AgentSpeak adds to a report: under `loc` the place in the file.
Extra = Mapping[str, agentspeak.lexer.Token | None]


class _Collector(logging.Handler):
    """Takes what AgentSpeak reports, as sentences with file, line and column."""

    def __init__(self) -> None:
        super().__init__()
        self.mistakes: list[str] = []

    def error(self, message: str, *values: object, extra: Extra | None = None) -> None:
        self._keep(message % values if values else message, (extra or {}).get("loc"))

    exception = error

    def warning(self, message: str, *values: object, extra: Extra | None = None) -> None:
        text = message % values if values else message
        unknown = _UNKNOWN_ACTION.search(text)
        if unknown:
            self._keep(_explain_action(*unknown.groups()), (extra or {}).get("loc"))

    info = warning

    def emit(self, record: logging.LogRecord) -> None:
        report = self.error if record.levelno >= logging.ERROR else self.warning
        report(record.getMessage(), extra={"loc": getattr(record, "loc", None)})

    def _keep(self, text: str, place: agentspeak.lexer.Token | None) -> None:
        if place:
            text = f"{Path(place.filename).name}:{place.lineno}:{place.startcol + 1}: {text}"
        self.mistakes.append(text)


def _explain_action(name: str, arity: str) -> str:
    guess = did_you_mean(name, set(_action_names()))
    return f"there is no action {name} with {arity} arguments{guess}"


def _action_names() -> Iterator[str]:
    yield from (f".{decision}" for decision in DECISIONS)
    yield from (name for name, _arity in agentspeak.stdlib.actions.actions)
    yield from agentspeak.stdlib.actions.variadic_actions


@contextmanager
def captured_log(collector: logging.Handler) -> Iterator[None]:
    """Send AgentSpeak's own reports to `collector` instead of the terminal."""
    logger = logging.getLogger("agentspeak.runtime")
    # AgentSpeak has one logger for everything and writes to stderr by default.
    before, logger.handlers, spread = logger.handlers, [collector], logger.propagate
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before, spread
