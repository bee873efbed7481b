"""A hash of the code that a record was made with, so that a stale record can be told."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

from cleanrl_worker.kit.schema import SCRIPTS

PACKAGE = SCRIPTS.parent


def fingerprint(algorithm: str) -> str:
    """The hash of an algorithm file and of all code of the worker that learning goes through.

    Comments, docstrings and layout do not count, and neither do modules that only report.
    """
    digest = hashlib.sha256()
    for path in sorted(_behind(SCRIPTS / f"{algorithm}.py", set())):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(_code(path).encode())
    return digest.hexdigest()[:16]


# What runs beside learning: changes here cannot change what is learned.
_BESIDE = {"args", "bridge", "compiler", "errors", "evaluation", "events", "facts", "files"}
_BESIDE |= {"checkpoint_files", "checkpoints", "logger", "parsing", "run", "schema", "script"}
_BESIDE |= {"frames", "spaces", "threads", "tracking", "videos"}


def _behind(path: Path, seen: set[Path]) -> set[Path]:
    """The file and every module of `kit`, `agents` and `games` that it imports, directly or not."""
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
    if package != PACKAGE.name or rest.split(".")[0] not in {"agents", "cleanrl", "games", "kit"}:
        return None
    path = PACKAGE.joinpath(*rest.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def _code(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
