"""A hash of the code that a record was made with, so that a stale record can be told."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

from cleanrl_worker.kit.schema import SCRIPTS

PACKAGE = SCRIPTS.parent


def fingerprint(algorithm: str) -> str:
    """The hash of an algorithm file and of all code of the worker that learning goes through.

    Comments, docstrings, types and layout do not count, and neither do modules that only report.
    """
    digest = hashlib.sha256()
    for path in sorted(_behind(SCRIPTS / f"{algorithm}.py", set())):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(code_of(path).encode())
    return digest.hexdigest()[:16]


# What runs beside learning: changes here cannot change what is learned.
_BESIDE = {"args", "bridge", "compiler", "errors", "evaluation", "events", "facts", "files"}
_BESIDE |= {"checkpoint_files", "checkpoints", "logger", "parsing", "run", "schema", "script"}
_BESIDE |= {"device_game", "frames", "live_frames", "spaces", "threads", "tracking", "videos"}


def _behind(path: Path, seen: set[Path]) -> set[Path]:
    """The file and every module of the worker that it imports, directly or not."""
    if path in seen or path.stem in _BESIDE:
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
    # Written out again, not dumped: what a dump has differs between versions of Python.
    return ast.unparse(_OnlyWhatRuns().visit(ast.parse(path.read_text(encoding="utf-8"))))


class _OnlyWhatRuns(ast.NodeTransformer):
    """Leaves out what is written for the reader and for the type checker."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # A block may have had nothing but a docstring or imports for types.
            body[:] = [line for line in body if not _is_text(line)] or [ast.Pass()]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module in {"typing", "collections.abc"} else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if for_types else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        # The name stays, for a dataclass has its fields by it.
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
