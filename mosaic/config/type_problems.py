"""What pydantic says about a document, as sentences for a person."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from mosaic.config.credentials import holds_credential
from mosaic.config.problems import MISSING, OUT_OF_RANGE, UNKNOWN_KEY, WRONG_TYPE, pointer
from mosaic.config.secrets import looks_secret
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.errors import Problem

STRAY_ARTIFACT_KEY = "LOG705"
# More would be read by no one, and each is compared with all others.
MOST_PROBLEMS = 1000
# How pydantic names the types of a choice inside a location; they are no keys of the document.
_BRANCHES = frozenset({"list[CurriculumStage]", "str"})


def telling(details: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """The errors that say something: where one type of a choice nearly fits, not the other's."""
    details = details[:MOST_PROBLEMS]
    for detail in details:
        where, branch = detail["loc"][:-1], detail["loc"][-1]
        nearer = any(
            other["loc"][: len(where)] == where and len(other["loc"]) > len(detail["loc"])
            for other in details
        )
        if branch not in _BRANCHES or not nearer:
            yield detail


def explain(detail: ErrorDetails, model: type[BaseModel], base: tuple[str, ...] = ()) -> Problem:
    """Turn one pydantic error into a sentence for a person; `base` is where the model begins."""
    location = tuple(part for part in detail["loc"] if part not in _BRANCHES)
    where = pointer((*base, *location))
    kind = detail["type"]
    if kind == "missing":
        return Problem(where, MISSING, f"{location[-1]!r} is required")
    if kind == "extra_forbidden":
        return _unknown_key(where, location, model)
    given = "a secret" if secret_location(location) else _shown(detail["input"])
    message = detail["msg"][0].lower() + detail["msg"][1:]
    ranged = ("greater_than", "less_than", "too_long", "too_short", "literal_error")
    code = OUT_OF_RANGE if kind.startswith(ranged) or kind in ranged else WRONG_TYPE
    suggestion = ""
    if kind == "literal_error" and isinstance(detail["input"], str):
        expected = re.findall(r"'([^']+)'", detail["ctx"]["expected"])
        suggestion = did_you_mean(detail["input"], expected)
    return Problem(where, code, f"{message}, but {given} was given{suggestion}")


def _unknown_key(where: str, location: tuple[str | int, ...], model: type[BaseModel]) -> Problem:
    key, parent = str(location[-1]), location[:-1]
    allowed = _fields_at(parent, model)
    code = STRAY_ARTIFACT_KEY if parent[:1] == ("artifacts",) else UNKNOWN_KEY
    message = (
        f"{key!r} is not known here; allowed: {allowed_names(allowed)}{did_you_mean(key, allowed)}"
    )
    return Problem(where, code, message)


def _fields_at(location: tuple[str | int, ...], root: type[BaseModel]) -> list[str]:
    model: type[BaseModel] | None = root
    for part in location:
        if isinstance(part, str):
            field = model.model_fields.get(part) if model else None
            model = next(_models_in(field.annotation), None) if field else None
    return list(model.model_fields) if model else []


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models of an annotation such as `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def secret_location(location: tuple[str | int, ...]) -> bool:
    """Whether what is there must not be shown."""
    return any(looks_secret(str(part)) for part in location)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, default=str)
    if holds_credential(text):
        return "a secret"
    return text if len(text) <= 60 else f"{text[:60]}…"
