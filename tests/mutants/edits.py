"""Every small edit of an algorithm file, made by rule, to find mistakes that no one thought of.

The mutants of `mutants.families` are mistakes that people make. An edit is one change of one place:
plus for minus, less for greater, a condition that always holds or never, another number, a
statement left out. What an edit breaks must be noticed by one of the file's checks; the few that
break nothing are in `mutants.harmless`, each with the reason.
"""

from __future__ import annotations

import ast
import contextlib
import io
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import pytest

from mutants.subject import Check, Subject, original

# An edit may make a loop endless, or wait for what never comes. The slowest check takes a tenth of
# that processor time; how long it takes by the clock is up to what else the machine does.
_LIMITS = ((signal.ITIMER_PROF, signal.SIGPROF, 60.0), (signal.ITIMER_REAL, signal.SIGALRM, 900.0))
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: ">=",
    ast.GtE: "<",
    ast.Gt: "<=",
    ast.LtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_OPPOSITES = {"min": "max", "amin": "amax", "argmin": "argmax", "minimum": "maximum"}
_OPPOSITES |= {"mean": "sum", **{high: low for low, high in _OPPOSITES.items()}, "sum": "mean"}
# They evaluate a policy that has been trained: `tests/algorithms/test_evaluation.py`.
_AFTER_TRAINING = {"make_policy", "make_eval_envs"}


@dataclass(frozen=True)
class Edit:
    """One change of one place.

    Attributes:
        file: the edited file's path in the worker's package.
        line: the number of the line, from 1.
        text: that line as it is.
        old: what is replaced.
        new: what replaces it.
        start: where `old` begins, in bytes.
    """

    file: str
    line: int
    text: str
    old: str
    new: str
    start: int

    def __str__(self) -> str:
        old = " ".join(self.old.split())
        return f"{self.file}:{self.line}: {self.text.strip()}   [{old[:60]} -> {self.new[:60]}]"

    @property
    def before(self) -> str:
        """What stands before it in its line."""
        source = original(self.file).source.encode()
        return source[: self.start].decode().rpartition("\n")[2]

    def apply(self) -> Subject:
        """The edited file."""
        source = original(self.file).source.encode()
        end = self.start + len(self.old.encode())
        return Subject(
            self.file, (source[: self.start] + self.new.encode() + source[end:]).decode()
        )


def edits(file: str) -> list[Edit]:
    """All edits of a file's classes and functions, in the order of its lines.

    Args:
        file: its path in the worker's package, such as `cleanrl/dqn.py`.
    """
    source = original(file).source
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    found = {
        Edit(
            file,
            node.lineno,
            lines[node.lineno - 1].rstrip("\n"),
            ast.get_source_segment(source, node) or "",
            new,
            starts[node.lineno - 1] + node.col_offset,
        )
        for node, new in _replacements(ast.parse(source), source, inside=False)
    }
    return sorted(found, key=lambda edit: (edit.start, edit.old, edit.new))


def _replacements(
    node: ast.AST, source: str, *, inside: bool
) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes below this one with what could stand in their place."""
    if isinstance(node, ast.FunctionDef):
        if node.name in _AFTER_TRAINING:
            return
        inside = True
    if (isinstance(node, ast.ClassDef) and node.name == "Args") or _is_refusal(node):
        return
    if isinstance(node, ast.JoinedStr):  # words for people; its parts have no places of their own
        return
    if inside:
        if isinstance(node, ast.expr):
            yield from ((node, new) for new in _other_expressions(node, source))
        elif isinstance(node, ast.If):
            yield from ((node.test, new) for new in ("True", "False"))
        elif isinstance(node, ast.AugAssign) or _is_call(node):
            yield node, "pass"
    for child in ast.iter_child_nodes(node):
        yield from _replacements(child, source, inside=inside)


def _other_expressions(node: ast.expr, source: str) -> Iterator[str]:
    def text(part: ast.expr) -> str:
        return ast.get_source_segment(source, part) or ""

    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield f"({text(node.left)}) {_OPERATORS[type(node.op)]} ({text(node.right)})"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        if (sign := _COMPARISONS.get(type(node.ops[0]))) is not None:
            yield f"({text(node.left)} {sign} {text(node.comparators[0])})"
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield f"({text(node.operand)})"
    elif isinstance(node, ast.Attribute) and node.attr in _OPPOSITES:
        if isinstance(node.ctx, ast.Load):
            yield f"{text(node.value)}.{_OPPOSITES[node.attr]}"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield repr(2 * node.value if node.value else 1)


def _is_refusal(node: ast.AST) -> bool:
    """Whether nothing is done but to refuse an argument: `tests/algorithms/test_refusals.py`."""
    return isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise) and not node.orelse


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def noticed(edit: Edit, checks: list[Check]) -> Check | None:
    """The first check that an edited file does not pass, or `None`.

    Args:
        edit: what is changed.
        checks: the checks of the file, all of which it passes as it is.
    """
    subject = edit.apply()
    for position, check in enumerate(checks):
        # What earlier checks have put into the file's place must not fail a later one.
        if not _passes(check, subject) and (position == 0 or not _passes(check, edit.apply())):
            return check
    return None


def _passes(check: Check, subject: Subject) -> bool:
    try:
        with _limited(), contextlib.redirect_stdout(io.StringIO()):
            check(subject)
    except (Exception, SystemExit, pytest.fail.Exception, _TookTooLong):
        return False
    return True


class _TookTooLong(BaseException):
    """Not an `Exception`, so that code which catches those cannot swallow the time limit."""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TookTooLong

    before = [signal.signal(number, stop) for _, number, _ in _LIMITS]
    for timer, _, seconds in _LIMITS:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(_LIMITS, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
