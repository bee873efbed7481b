"""From a command line, or from values that the worker hands over, to a script's arguments.

`--help` is printed by tyro. Flags are read by the platform's own reader with the types of the
script's schema, which takes a millisecond where building a full parser takes a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.running.schema import SCRIPTS, ScriptSchema
from mosaic.config import flags
from mosaic.config.json_types import JsonValue
from mosaic.config.values import kinds_of

ArgsType = TypeVar("ArgsType")


def parse(args_type: type[ArgsType], schema: ScriptSchema, command_line: Sequence[str]) -> ArgsType:
    """Build a script's arguments from its command line.

    Args:
        args_type: the script's `Args`.
        schema: what the script says about itself.
        command_line: the words after the script's name.

    Returns:
        The arguments, with the script's short settings where `--smoke` asks for them.

    Raises:
        UsageError: for an unknown flag or a value that does not fit, all problems at once.
    """
    if any(word in ("-h", "--help") for word in command_line):
        # Imported only here: it takes a tenth of a second, which every start would pay.
        import tyro

        name = schema.path.stem
        tyro.cli(args_type, args=["--help"], prog=f"python -m cleanrl_worker.cleanrl.{name}")
    return _build(args_type, schema, read_flags(schema, command_line))


def from_values(
    args_type: type[ArgsType], schema: ScriptSchema, values: Mapping[str, JsonValue]
) -> ArgsType:
    """Build a script's arguments from values that have their types already.

    Raises:
        UsageError: for a name the script does not know or a value out of range.
    """
    unknown = [name for name in values if name not in schema.arguments]
    problems = [f"{schema.path.stem} has no argument {name!r}." for name in unknown]
    known = {
        name: _fitting(schema.arguments[name].type, value)
        for name, value in values.items()
        if name in schema.arguments
    }
    problems += check_values(schema, known)
    if problems:
        raise UsageError("\n".join(problems))
    return _build(args_type, schema, known)


def read_flags(schema: ScriptSchema, command_line: Sequence[str]) -> dict[str, JsonValue]:
    """The values that a command line gives to a script's arguments.

    Raises:
        UsageError: for an unknown flag or a value that does not fit, all problems at once.
    """
    kinds = {name: argument.type for name, argument in schema.arguments.items()}
    given, problems = flags.read_flags(command_line, kinds, schema.path.stem)
    sentences = [f"{problem.message}." for problem in problems]
    if any(problem.code == flags.UNKNOWN_FLAG for problem in problems):
        sentences.append(f"All flags: {_help_command(schema)}")
    sentences += check_values(schema, given)
    if sentences:
        raise UsageError("\n".join(sentences))
    return given


def check_values(schema: ScriptSchema, values: Mapping[str, JsonValue]) -> list[str]:
    """A sentence for each value that lies outside the range its argument states."""
    problems = []
    for name, value in values.items():
        argument = schema.arguments[name]
        if argument.range is not None and not argument.range.allows(value):
            problems.append(f"{argument.flag} must be {argument.range}, not {value}.")
    return problems


def _build(
    args_type: type[ArgsType], schema: ScriptSchema, given: Mapping[str, JsonValue]
) -> ArgsType:
    # Short settings are defaults too: a flag given beside --smoke wins.
    defaults = schema.smoke if given.get("smoke") else {}
    args = args_type(**{**defaults, **given})
    problems = [
        f"{less.flag} {getattr(args, less.name):g} must be below {more.flag}, which is "
        f"{getattr(args, more.name):g}."
        for less, more in schema.out_of_order(vars(args))
    ]
    if problems:
        raise UsageError("\n".join(problems))
    return args


def _fitting(kind: str, value: JsonValue) -> JsonValue:
    """JSON does not tell 1 from 1.0; an argument that is a float must be one all the same."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return float(value) if kinds_of(kind)[0] == "float" else value


def _help_command(schema: ScriptSchema) -> str:
    bundled = schema.path.parent == SCRIPTS
    target = f"-m cleanrl_worker.cleanrl.{schema.path.stem}" if bundled else str(schema.path)
    return f"python {target} --help"
