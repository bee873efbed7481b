"""A hash of the code that a record was made with, so that a stale record can be told."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

from cleanrl_worker.running.schema import SCRIPTS

PACKAGE = SCRIPTS.parent


def fingerprint(algorithm: str) -> str:
    """The hash of an algorithm file and of all code of the worker that learning goes through.

    Comments, docstrings, types and layout do not count, neither do modules that only report, nor
    refusals: none of them stopped the run that the record is of.
    """
    digest = hashlib.sha256()
    # A script asks the run for its environments, and the run is among what only reports.
    environments = _behind(PACKAGE / "kit" / "envs.py", set())
    for path in sorted(_behind(SCRIPTS / f"{algorithm}.py", environments)):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(code_of(path).encode())
    return digest.hexdigest()[:16]


# What runs beside learning: changes here cannot change what is learned. So does all of `running/`.
_RUNNING = PACKAGE / "running"
_BESIDE = {"args", "compiler", "device_game", "errors", "families", "frames", "judging", "run"}
_BESIDE |= {"script", "spaces"}


def _behind(path: Path, seen: set[Path]) -> set[Path]:
    """The file and every module of the worker that it imports, directly or not."""
    if path in seen or path.stem in _BESIDE or path.parent == _RUNNING:
        return seen
    seen.add(path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
            for name in names:
                found = _file_of(name)
                if found is not None:
                    _behind(found, seen)
    return seen


def _file_of(module: str) -> Path | None:
    package, _, rest = module.partition(".")
    if package != PACKAGE.name or not rest:
        return None
    path = PACKAGE.joinpath(*rest.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def code_of(path: Path) -> str:
    """What of a file runs, as text: the same for two files that differ in words and types alone."""
    tree = _OnlyWhatRuns().visit(ast.parse(path.read_text(encoding="utf-8")))
    # Written out again, not dumped: what a dump has differs between versions of Python.
    return ast.unparse(_WithoutUnused(tree).visit(tree))


_FOR_TYPES = {"Protocol", "TypedDict"}
_OF_TYPES = {"Callable", "Iterator", "Mapping", "Sequence", "dict", "list", "tuple", "type"}


class _OnlyWhatRuns(ast.NodeTransformer):
    """Leaves out what is written for the reader and for the type checker."""

    def __init__(self) -> None:
        self._in_class = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # A block may have had nothing but a docstring or imports for types.
            runs = [line for line in body if not _is_text(line) and not _is_refusal(line)]
            body[:] = _shortest(runs) or [ast.Pass()]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        # What is imported of our own is hashed itself, or runs beside learning.
        ours = str(node.module).partition(".")[0] == PACKAGE.name
        return None if ours or node.module in {"typing", "collections.abc"} else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if for_types else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """A record was made, so none of them has failed."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        if any(_name(base) in _FOR_TYPES for base in node.bases):
            return None
        node.bases = [base for base in node.bases if _name(base) != "Generic"]
        return self._inside(node, in_class=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._inside(node, in_class=False)

    def _inside(self, node: ast.ClassDef | ast.FunctionDef, *, in_class: bool) -> ast.AST:
        before, self._in_class = self._in_class, in_class
        visited = self.generic_visit(node)
        self._in_class = before
        return visited

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if self._in_class:
            # The name stays, for a dataclass has its fields by it.
            node.annotation = ast.Constant(None)
            return self.generic_visit(node)
        if node.value is None or _name(node.annotation) == "TypeAlias":
            return None
        return self.visit_Assign(ast.Assign([node.target], node.value, lineno=node.lineno))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        alias = isinstance(node.value, ast.Subscript) and _name(node.value) in _OF_TYPES
        variable = isinstance(node.value, ast.Call) and _name(node.value.func) == "TypeVar"
        return None if alias or variable else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[1] if _name(node.func) == "cast" else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        # As a list of its parts: versions of Python choose other quotes when they write one out.
        self.generic_visit(node)
        return ast.List(node.values, ast.Load())

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        parts = [node.value, ast.Constant(node.conversion)]
        return ast.Tuple([*parts, *filter(None, [node.format_spec])], ast.Load())


class _WithoutUnused(ast.NodeTransformer):
    """Leaves out the imports of names that only types had used."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        self._used = {node.id for node in nodes if isinstance(node, ast.Name)}
        # What a module offers in `__all__`.
        self._used |= {node.value for node in nodes if isinstance(node, ast.Constant)}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        node.names = [item for item in node.names if (item.asname or item.name) in self._used]
        return node if node.names else None

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        # One without `as` may be there for what importing does.
        node.names = [item for item in node.names if item.asname in {None, *self._used}]
        return node if node.names else None


def _name(node: ast.AST) -> str:
    """The name of `X`, also in `X[...]` and `typing.X`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _shortest(lines: list[ast.stmt]) -> list[ast.stmt]:
    """With `return value` for a value that is named, to give it a type, and returned at once."""
    kept: list[ast.stmt] = []
    for line in lines:
        before = kept[-1] if kept else None
        if (
            isinstance(line, ast.Return)
            and isinstance(line.value, ast.Name)
            and isinstance(before, ast.Assign)
            and [_name(target) for target in before.targets] == [line.value.id]
            and isinstance(before.targets[0], ast.Name)
        ):
            kept[-1] = ast.Return(before.value)
        else:
            kept.append(line)
    return kept


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_refusal(node: ast.stmt) -> bool:
    """A condition under which nothing is done but to raise an error."""
    if not isinstance(node, ast.If) or node.orelse:
        return False
    return len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
