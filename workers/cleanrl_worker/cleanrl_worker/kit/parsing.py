"""From a command line to a script's arguments, with errors that help.

``--help`` is printed by tyro. Parsing itself reads the script's schema, which takes a
millisecond where building a full parser takes a tenth of a second.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.schema import SCRIPTS, Argument, ScriptSchema, read_schema

ArgsType = TypeVar("ArgsType")
_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


def parse(args_type: type[ArgsType], script: Path, command_line: Sequence[str]) -> ArgsType:
    """Build a script's arguments from its command line.

    Args:
        args_type: the script's ``Args``.
        script: the script's file, whose literals give types, help and ranges.
        command_line: the words after the script's name.

    Returns:
        The arguments, with the script's short settings where ``--smoke`` asks for them.

    Raises:
        UsageError: for an unknown flag or a value that does not fit, all problems at once.
    """
    if any(word in ("-h", "--help") for word in command_line):
        import tyro

        tyro.cli(args_type, args=["--help"], prog=f"python -m cleanrl_worker.cleanrl.{script.stem}")
    schema = read_schema(script)
    given = read_flags(schema, command_line)
    defaults = schema.smoke if given.get("smoke") else {}
    return args_type(**{**defaults, **given})


def read_flags(schema: ScriptSchema, command_line: Sequence[str]) -> dict[str, Any]:
    """The values that a command line gives to a script's arguments.

    Raises:
        UsageError: for an unknown flag or a value that does not fit, all problems at once.
    """
    given, problems = _read(schema, list(command_line))
    problems += check_values(schema, given)
    if problems:
        raise UsageError("\n".join(problems))
    return given


def check_values(schema: ScriptSchema, values: dict[str, Any]) -> list[str]:
    """A sentence for each value that lies outside the range its argument states."""
    problems = []
    for name, value in values.items():
        argument = schema.arguments[name]
        if argument.range is not None and not argument.range.allows(value):
            problems.append(f"{argument.flag} must be {argument.range}, not {value}.")
    return problems


def convert(argument: Argument, text: str) -> Any:
    """Turn the text of a value into the argument's type.

    Raises:
        ValueError: with a sentence, when the text is no such value.
    """
    kinds = [kind.strip() for kind in argument.type.split("|")]
    if "None" in kinds and text.lower() == "none":
        return None
    kind = kinds[0]
    if kind == "bool":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError(f"{argument.flag} takes True or False, not {text!r}.")
    if kind == "int":
        number = float(text) if _is_number(text) else None
        if number is None or number != int(number):
            raise ValueError(f"{argument.flag} takes a whole number, not {text!r}.")
        return int(text) if text.lstrip("+-").isdigit() else int(number)
    if kind == "float":
        if not _is_number(text):
            raise ValueError(f"{argument.flag} takes a number, not {text!r}.")
        return float(text)
    return text


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) != float("inf") and float(text) == float(text)
    except ValueError:
        return False


def _read(schema: ScriptSchema, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    given: dict[str, Any] = {}
    problems: list[str] = []
    position = 0
    while position < len(words):
        word, equals, inline = words[position].partition("=")
        position += 1
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            problems.append(f"{word!r} is not a flag; flags begin with two dashes.")
            continue
        negated = name.removeprefix("no_")
        if name not in schema.arguments and negated in schema.arguments and negated != name:
            given[negated] = False
            continue
        argument = schema.arguments.get(name)
        if argument is None:
            problems.append(_unknown(word, schema))
            if not equals and position < len(words) and not words[position].startswith("--"):
                position += 1
            continue
        following = words[position] if position < len(words) else None
        if equals:
            text = inline
        elif argument.type.startswith("bool") and (following or "").lower() not in _TRUE | _FALSE:
            given[name] = True
            continue
        elif following is None or (following.startswith("--") and argument.type != "str"):
            problems.append(f"{word} needs a value, for example {word} {argument.default}.")
            continue
        else:
            text = following
            position += 1
        try:
            given[name] = convert(argument, text)
        except ValueError as error:
            problems.append(str(error))
    return given, problems


def _unknown(word: str, schema: ScriptSchema) -> str:
    flags = [argument.flag for argument in schema.arguments.values()]
    close = difflib.get_close_matches(word, flags, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    bundled = schema.path.parent == SCRIPTS
    target = f"-m cleanrl_worker.cleanrl.{schema.path.stem}" if bundled else str(schema.path)
    command = f"python {target} --help"
    return f"{schema.path.stem} has no flag {word}.{hint} All flags: {command}"
