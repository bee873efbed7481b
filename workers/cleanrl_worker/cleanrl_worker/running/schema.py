"""Reads what an algorithm file says about itself, without importing it.

A file declares `Args` (its arguments), `ALGORITHM` (what it can act on and needs) and
`SMOKE` (short settings). All are literals, so that the dry run, the window and the
documentation can read them with `ast` in milliseconds, with no torch in the process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

from cleanrl_worker.kit.args import Range, parse_range
from mosaic.config.json_types import JsonValue

SCRIPTS = Path(__file__).parent.parent / "cleanrl"
_SHARED_ARGS = SCRIPTS.with_name("kit").resolve() / "args.py"


@dataclass(frozen=True)
class Argument:
    """One argument of a script."""

    name: str
    type: str
    default: JsonValue
    help: str
    range: Range | None

    @property
    def flag(self) -> str:
        """The argument as it is typed on the command line."""
        return "--" + self.name.replace("_", "-")


class Declaration(TypedDict, total=False):
    """An algorithm file's `ALGORITHM`; scripts of others have none."""

    title: str
    paper: str
    family: str
    actions: list[str]
    observations: list[str]
    default_env: str
    requires: list[str]
    on_device: bool


class _Literals(TypedDict, total=False):
    ALGORITHM: Declaration
    SMOKE: dict[str, JsonValue]


@dataclass(frozen=True)
class ScriptSchema:
    """What a script says about itself.

    Attributes:
        path: Its file.
        arguments: Its arguments, in order.
        algorithm: Its `ALGORITHM`.
        smoke: Its `SMOKE`.
        spells_truth: Whether its switches take a word: `--cuda False` instead of `--no-cuda`.
        imports: The packages it imports at its top level.
        asks_for_envs: Whether its environments come from `run.make_envs`, as a curriculum needs.
    """

    path: Path
    arguments: dict[str, Argument]
    algorithm: Declaration
    smoke: dict[str, JsonValue]
    spells_truth: bool = False
    imports: frozenset[str] = frozenset()
    asks_for_envs: bool = False

    def out_of_order(self, values: Mapping[str, JsonValue]) -> Iterator[tuple[Argument, Argument]]:
        """Each argument whose value should be below that of another one and is not, with the other.

        Args:
            values: All values, as the script will see them.
        """
        for argument in self.arguments.values():
            greater = self.arguments.get(argument.range.below or "") if argument.range else None
            if greater is None:
                continue
            low, high = values[argument.name], values[greater.name]
            if isinstance(low, int | float) and isinstance(high, int | float) and low >= high:
                yield argument, greater


def script_names() -> list[str]:
    """The bundled algorithms, in alphabetical order."""
    return sorted(path.stem for path in SCRIPTS.glob("*.py") if not path.stem.startswith("_"))


def read_schema(path: Path) -> ScriptSchema:
    """Read a script's declarations, once per process until the file changes.

    Args:
        path: the script's file.

    Returns:
        Its arguments in order (shared ones last), its `ALGORITHM` and its `SMOKE`.
    """
    return _read_schema(path, path.stat().st_mtime_ns)


@cache
def _read_schema(path: Path, modified: int) -> ScriptSchema:
    """`modified` is part of the key: a daemon lives for weeks, and scripts are edited."""
    tree = _tree(path)
    classes, literals = _declarations(tree)
    shared, _ = _shared_declarations()
    classes = {**shared, **classes}
    own: dict[str, Argument] = {}
    inherited: dict[str, Argument] = {}
    if "Args" in classes:
        own = _fields(classes["Args"])
        for base in classes["Args"].bases:
            inherited.update(_inherited(base, classes))
    # Inherited arguments keep their place at the end, also where the script changes a default.
    arguments = {name: own.get(name, argument) for name, argument in inherited.items()}
    ordered = {**{n: a for n, a in own.items() if n not in inherited}, **arguments}
    # Older scripts of upstream declare their arguments in a parser instead of a class.
    parsed = {} if ordered else _parser_arguments(tree)
    return ScriptSchema(
        path,
        ordered or parsed,
        literals.get("ALGORITHM", {}),
        literals.get("SMOKE", {}),
        spells_truth=bool(parsed),
        imports=frozenset(_imports(tree)),
        asks_for_envs=any(
            isinstance(node, ast.Attribute) and node.attr == "make_envs" for node in ast.walk(tree)
        ),
    )


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _parser_arguments(tree: ast.Module) -> dict[str, Argument]:
    """The arguments of an `argparse` parser, as far as they are literals."""
    found: dict[str, Argument] = {}
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if not isinstance(called, ast.Attribute) or called.attr != "add_argument":
            continue
        assert isinstance(node, ast.Call)
        flag = _value(node.args[0]) if node.args else ""
        if not isinstance(flag, str) or not flag.startswith("--"):
            continue
        options = {item.arg: item.value for item in node.keywords if item.arg}
        default = _value(options["default"]) if "default" in options else None
        text = str(_value(options["help"])) if "help" in options else ""
        name = flag.removeprefix("--").replace("-", "_")
        found[name] = Argument(name, _parsed_type(options, default), default, text, None)
    return found


def _parsed_type(options: dict[str, ast.expr], default: object) -> str:
    given = options.get("type")
    kind = given.id if isinstance(given, ast.Name) else "bool" if given is not None else "str"
    return f"{kind} | None" if default is None else kind


@cache
def _shared_declarations() -> tuple[dict[str, ast.ClassDef], _Literals]:
    """The arguments that all scripts share; they change with the worker's own code only."""
    return _declarations(_tree(_SHARED_ARGS))


def _inherited(base: ast.expr, classes: dict[str, ast.ClassDef]) -> dict[str, Argument]:
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    if name not in classes:
        return {}
    fields: dict[str, Argument] = {}
    for further in classes[name].bases:
        fields.update(_inherited(further, classes))
    fields.update(_fields(classes[name]))
    return fields


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _declarations(tree: ast.Module) -> tuple[dict[str, ast.ClassDef], _Literals]:
    classes: dict[str, ast.ClassDef] = {}
    literals: _Literals = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name == "ALGORITHM":
                literals["ALGORITHM"] = ast.literal_eval(node.value)
            elif name == "SMOKE":
                literals["SMOKE"] = ast.literal_eval(node.value)
    return classes, literals


def _fields(definition: ast.ClassDef) -> dict[str, Argument]:
    fields: dict[str, Argument] = {}
    following = [*definition.body[1:], None]
    for node, after in zip(definition.body, following, strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        # The help text is the string literal that follows the field, as in CleanRL.
        default = None if node.value is None else _value(node.value)
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = str(after.value.value)
        name = node.target.id
        fields[name] = Argument(
            name, ast.unparse(node.annotation), default, text, parse_range(text)
        )
    return fields


def _value(expression: ast.expr) -> JsonValue:
    """A literal default, or the text of one that is computed when the script runs."""
    try:
        literal: JsonValue = ast.literal_eval(expression)
        return literal
    except ValueError:
        return ast.unparse(expression)
