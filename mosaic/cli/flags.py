"""A script's own flags on `mosaic train`, read with the types the script declares."""

from collections.abc import Mapping, Sequence
from typing import Any

from mosaic.config.secrets import looks_secret
from mosaic.config.suggest import did_you_mean
from mosaic.config.values import FALSE_WORDS, TRUE_WORDS, convert
from mosaic.errors import InvalidConfigError, Problem


def read_flags(
    words: Sequence[str], arguments: Sequence[Mapping[str, Any]] | None, algo: str
) -> dict[str, Any]:
    """Turn `--num-envs 8 --no-anneal-lr` into values.

    Args:
        words: What was typed after the options of `mosaic train` itself.
        arguments: The script's arguments as its worker describes them; None reads any flag.
        algo: For messages.

    Raises:
        InvalidConfigError: With every flag that is unknown or does not fit.
    """
    known = None if arguments is None else {item["name"]: item["type"] for item in arguments}
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    position = 0
    while position < len(words):
        word, equals, text = words[position].partition("=")
        position += 1
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or not name:
            problems.append(Problem("", "CLI100", f"{word!r} is not a flag"))
            continue
        if looks_secret(name):
            message = (
                f"{word} would show a secret to every user of this machine; set it in the "
                "environment (WANDB_API_KEY) or in a configuration file"
            )
            problems.append(Problem("", "CLI101", message))
            position += not equals
            continue
        kind = _kind(name, known)
        negated = name.removeprefix("no_")
        if kind is None and negated != name and _kind(negated, known) == "bool":
            values[negated] = False
            continue
        if kind is None:
            message = f"{algo} has no flag {word}{did_you_mean(name, known or ())}"
            problems.append(Problem("", "CFG113", message))
            position += not equals and _is_value(words, position)
            continue
        if not equals:
            if kind == "bool" and not _is_truth(words, position):
                values[name] = True
                continue
            if not _is_value(words, position):
                problems.append(Problem("", "CLI102", f"{word} needs a value ({kind})"))
                continue
            text = words[position]
            position += 1
        try:
            values[name] = convert(text, kind)
        except ValueError:
            problems.append(Problem("", "CFG114", f"{word} takes {kind}, not {text!r}"))
    if problems:
        raise InvalidConfigError(problems)
    return values


def _kind(name: str, known: Mapping[str, str] | None) -> str | None:
    return "any" if known is None else known.get(name)


def _is_value(words: Sequence[str], position: int) -> bool:
    if position >= len(words):
        return False
    word = words[position]
    return not word.startswith("--")


def _is_truth(words: Sequence[str], position: int) -> bool:
    return position < len(words) and words[position].lower() in TRUE_WORDS | FALSE_WORDS
