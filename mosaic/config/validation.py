"""From text to `TrainRunConfig`, or to every problem at once."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mosaic.config.credentials import holds_credential
from mosaic.config.model import TrainRunConfig, WorkerRunConfig
from mosaic.config.problems import (
    DENIED_VARIABLE,
    DUPLICATE_KEY,
    MISPLACED_CREDENTIAL,
    MISSING,
    NOT_JSON,
    OUT_OF_RANGE,
    PATH_ESCAPES,
    TOO_LARGE,
    UNKNOWN_KEY,
    UNKNOWN_PLACEHOLDER,
    UNKNOWN_WORKER,
    WRONG_TYPE,
    pointer,
)
from mosaic.config.secrets import looks_secret, misplaced
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.errors import InvalidConfigError, Problem

# A document that a person or a form makes has some kilobytes.
MAX_CONFIG_BYTES = 1_000_000
# Far beyond what any worker has, and far below what makes a check slow or recurse too deeply.
_DEEPEST, _MOST_KEYS, _MOST_PROBLEMS = 50, 1000, 1000
PLACEHOLDERS = ("RUN_ID", "RUN_DIR", "VAR_TENSORBOARD_DIR")

STRAY_ARTIFACT_KEY = "LOG705"

WorkerFinder = Callable[[str], str]
WorkerConfigType = TypeVar("WorkerConfigType", bound=WorkerRunConfig)

# Variables through which a config could run code, hide from the supervisor or reach other runs.
# Whole families, not single names: a loader or an interpreter that obeys one variable of this kind
# soon obeys another. The rules at the end go by what a name says: where code, plugins or a
# configuration that names them are loaded from.
_DENIED_VARIABLES = re.compile(
    r"(LD_.*|DYLD_.*|MALLOC_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH"  # the loader and C
    r"|PYTHON(?!HASHSEED\Z|UNBUFFERED\Z|UTF8\Z|IOENCODING\Z|FAULTHANDLER\Z"
    r"|MALLOC\Z|DONTWRITEBYTECODE\Z|ASYNCIODEBUG\Z|OPTIMIZE\Z|DEVMODE\Z).*"
    r"|COVERAGE_PROCESS_(START|CONFIG)"
    r"|PATH|IFS|BASH_.*|ENV|SHELLOPTS|PS4|PROMPT_COMMAND"  # shells
    r"|PERL.*|RUBY.*|NODE_OPTIONS|NODE_PATH|JAVA_TOOL_OPTIONS|_?JAVA_OPTIONS|JDK_.*OPTIONS"
    r"|GIT_.*|SSH_ASKPASS|EDITOR|VISUAL|PAGER|BROWSER"  # programs that start others
    r"|OPENSSL_.*|KRB5_.*"
    r"|SDL_DYNAMIC_API|VK_.*|LIBGL_DRIVERS_PATH|GBM_BACKENDS_PATH|__EGL_.*|OCL_ICD_.*"  # drivers
    r"|MOSAIC_.*"
    r"|.*(_PRELOAD|_PLUGINS?|_PLUGIN_PATH|_PLUGIN_LIBRARY_PATH|_LIBRARY_PATH|_MODULE_PATH"
    r"|_DRIVERS?_PATH))\Z"
)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PATH_FIELDS = ("tensorboard_dir",)
# How pydantic names the types of a choice inside a location; they are no keys of the document.
_BRANCHES = frozenset({"list[CurriculumStage]", "str"})


def validate_train_run_config(
    document: str | bytes | Mapping[str, object],
    workers: Collection[str] | None = None,
    worker_of: WorkerFinder | None = None,
) -> TrainRunConfig:
    """Check a configuration, all but what only its worker knows.

    The text is parsed here and nowhere else in the process: later code gets the model.

    Args:
        document: JSON text or a parsed document, in the nested or the flat shape.
        workers: The worker types that are known, or None to accept any.
        worker_of: Names the worker of an algorithm, for a flat document that names none.

    Raises:
        InvalidConfigError: With every problem found.
    """
    config, problems = examine(document, workers, worker_of)
    if config is None or problems:
        raise InvalidConfigError(problems)
    return config


def examine(
    document: str | bytes | Mapping[str, object],
    workers: Collection[str] | None = None,
    worker_of: WorkerFinder | None = None,
) -> tuple[TrainRunConfig | None, list[Problem]]:
    """What `validate_train_run_config` knows of a document, for a caller that asks on.

    Returns:
        The configuration, None where the document is too broken to be one, and every problem.
    """
    parsed, problems = _parse(document)
    if parsed is None:
        return None, problems
    try:
        nested = nest(parsed, worker_of)
    except InvalidConfigError as error:
        # No worker has this algorithm; the other problems are still reported with it.
        problems += error.problems
        nested = nest({**parsed, "worker": ""})
    try:
        config = TrainRunConfig.model_validate(nested)
    except ValidationError as error:
        problems += [_explain(detail, TrainRunConfig) for detail in _telling(error.errors())]
        problems += _semantic_problems(nested)
        # The semantic rules read the raw document, so that one answer has all the mistakes.
        return None, _distinct(problems)
    problems += _semantic_problems(nested)
    worker = config.metadata.worker.type
    if workers is not None and worker and worker not in workers:
        text = (
            f"no worker {worker!r} is installed; installed: {allowed_names(workers)}"
            f"{did_you_mean(worker, workers)} (`mosaic workers` lists them)"
        )
        problems.append(Problem("/metadata/worker/type", UNKNOWN_WORKER, text))
    return config, _distinct(problems)


def read_worker_config(
    document: str | bytes | Mapping[str, object], kind: type[WorkerConfigType]
) -> WorkerConfigType:
    """The worker's own fields, from the nested or the flat shape; for the worker's process.

    Args:
        document: JSON text or a parsed document.
        kind: `WorkerRunConfig`, or a worker's own class of it.

    Raises:
        InvalidConfigError: With every problem found.
    """
    parsed, problems = _parse(document)
    if parsed is None:
        raise InvalidConfigError(problems)
    fields = _dig(parsed, "metadata", "worker", "config")
    if not isinstance(fields, dict):
        # The flat shape may name the worker, and what only the daemon acts on, beside the fields.
        beside = {"worker", *TrainRunConfig.model_fields}
        fields = {name: value for name, value in parsed.items() if name not in beside}
    try:
        config = kind.model_validate(fields)
    except ValidationError as error:
        base = ("metadata", "worker", "config")
        problems += [_explain(detail, kind, base) for detail in _telling(error.errors())]
        raise InvalidConfigError(_distinct(problems)) from None
    if problems:
        raise InvalidConfigError(_distinct(problems))
    return config


def nest(
    document: Mapping[str, object], worker_of: WorkerFinder | None = None
) -> dict[str, object]:
    """The nested shape of a document that may be the worker's own flat fields.

    Raises:
        InvalidConfigError: From `worker_of`, when no worker has the algorithm.
    """
    flat_fields = set(WorkerRunConfig.model_fields)
    if "metadata" in document or not ({"algo", "env_id"} & set(document)):
        return dict(document)
    request: dict[str, object] = {
        "config": {key: value for key, value in document.items() if key in flat_fields}
    }
    if "worker" in document:
        request["type"] = document["worker"]
    elif worker_of is not None:
        request["type"] = worker_of(str(document.get("algo") or ""))
    top = {
        key: value for key, value in document.items() if key not in flat_fields and key != "worker"
    }
    return {"artifacts": {}, **top, "metadata": {"worker": request}}


def _parse(
    document: str | bytes | Mapping[str, object],
) -> tuple[dict[str, object] | None, list[Problem]]:
    if isinstance(document, Mapping):
        too_much = _too_much(document)
        return (None, [too_much]) if too_much else (dict(document), [])
    size = len(document)
    if size > MAX_CONFIG_BYTES:
        text = f"the configuration has {size:,} bytes; at most {MAX_CONFIG_BYTES:,} are allowed"
        return None, [Problem("", TOO_LARGE, text)]
    duplicates: list[Problem] = []

    def refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in pairs:
            if key in result and len(duplicates) < _MOST_PROBLEMS:
                duplicates.append(
                    Problem("", DUPLICATE_KEY, f"the key {key!r} is given twice; keep one")
                )
            result[key] = value
        return result

    def refuse_constant(name: str) -> None:
        raise ValueError(f"{name} is not a JSON number")

    try:
        parsed = json.loads(
            document, object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant
        )
        # JSON may hold half a surrogate pair; it could be neither stored nor sent.
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeError:
        text = "this is not valid JSON: a text holds half a surrogate pair or is not UTF-8"
        return None, [Problem("", NOT_JSON, text)]
    except (ValueError, RecursionError) as error:
        return None, [Problem("", NOT_JSON, f"this is not valid JSON: {error}")]
    if not isinstance(parsed, dict):
        kind = type(parsed).__name__
        return None, [Problem("", NOT_JSON, f"a configuration is a JSON object, not a {kind}")]
    too_much = _too_much(parsed)
    return (None, [too_much]) if too_much else (parsed, duplicates)


def _too_much(document: Mapping[str, object]) -> Problem | None:
    """What makes a document too deep or too wide to be checked in bounded time; without recursion.

    Everything that looks at a configuration later, here and in the workers, recurses into it and
    searches its names.
    """
    level: list[tuple[str, object]] = [("", document)]
    for _ in range(_DEEPEST):
        below: list[tuple[str, object]] = []
        for where, value in level:
            if isinstance(value, Mapping):
                if len(value) > _MOST_KEYS:
                    text = f"an object with {len(value):,} keys; at most {_MOST_KEYS:,} are allowed"
                    return Problem(where, TOO_LARGE, text)
                below += [(f"{where}{pointer((str(key),))}", item) for key, item in value.items()]
            elif isinstance(value, list):
                below += [(where, item) for item in value if isinstance(item, Mapping | list)]
        level = below
    if level:
        where = level[0][0][:200]
        return Problem(where, TOO_LARGE, f"nested more than {_DEEPEST} levels deep")
    return None


def _telling(details: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """The errors that say something: where one type of a choice nearly fits, not the other's."""
    details = details[:_MOST_PROBLEMS]  # below, each is compared with all others
    for detail in details:
        where, branch = detail["loc"][:-1], detail["loc"][-1]
        nearer = any(
            other["loc"][: len(where)] == where and len(other["loc"]) > len(detail["loc"])
            for other in details
        )
        if branch not in _BRANCHES or not nearer:
            yield detail


def _explain(detail: ErrorDetails, model: type[BaseModel], base: tuple[str, ...] = ()) -> Problem:
    """Turn one pydantic error into a sentence for a person; `base` is where the model begins."""
    location = tuple(part for part in detail["loc"] if part not in _BRANCHES)
    where = pointer((*base, *location))
    kind = detail["type"]
    if kind == "missing":
        return Problem(where, MISSING, f"{location[-1]!r} is required")
    if kind == "extra_forbidden":
        return _unknown_key(where, location, model)
    given = "a secret" if _secret_location(location) else _shown(detail["input"])
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


def _secret_location(location: tuple[str | int, ...]) -> bool:
    return any(looks_secret(str(part)) for part in location)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, default=str)
    if holds_credential(text):
        return "a secret"
    return text if len(text) <= 60 else f"{text[:60]}…"


def _semantic_problems(nested: Mapping[str, object]) -> Iterator[Problem]:
    """What the types cannot say; reads the raw document so that it works beside type errors."""
    environment = nested.get("environment")
    if isinstance(environment, dict):
        yield from _environment_problems(environment)
    gpus = _dig(nested, "resources", "gpus")
    if isinstance(gpus, dict):
        requested, mandatory = gpus.get("requested", 0), gpus.get("mandatory", 0)
        if (
            isinstance(requested, int)
            and isinstance(mandatory, int)
            and mandatory > max(0, requested)
        ):
            text = f"{mandatory} mandatory GPUs are more than the {requested} requested"
            yield Problem("/resources/gpus/mandatory", OUT_OF_RANGE, text)
    extras = _dig(nested, "metadata", "worker", "config", "extras")
    if isinstance(extras, dict):
        base = ("metadata", "worker", "config", "extras")
        for field in _PATH_FIELDS:
            yield from _path_problems((*base, field), extras.get(field))
    yield from _placeholder_problems(nested, ())
    for location, kind in misplaced(nested):
        text = (
            f"this looks like {kind}, and here it would be stored and shown as it is; give it as "
            'a variable in "environment", where it is kept secret, and read it from there'
        )
        yield Problem(pointer(location), MISPLACED_CREDENTIAL, text)


def _environment_problems(environment: Mapping[str, object]) -> Iterator[Problem]:
    for name, value in environment.items():
        where = pointer(("environment", name))
        if isinstance(value, str) and "\0" in value:
            yield Problem(where, DENIED_VARIABLE, f"the value of {name!r} holds a NUL character")
        if not _VARIABLE_NAME.match(name):
            yield Problem(where, DENIED_VARIABLE, f"{name!r} is not a variable name")
        elif _DENIED_VARIABLES.match(name):
            text = (
                f"{name} may not be set by a run: it could run foreign code or hide the worker; "
                "set it in the daemon's own environment if you must"
            )
            yield Problem(where, DENIED_VARIABLE, text)


def _path_problems(location: Sequence[str], value: object) -> Iterator[Problem]:
    if not isinstance(value, str):
        return
    cleaned = re.sub(r"\$\{(RUN_DIR|VAR_TENSORBOARD_DIR)\}/?", "", value)
    if cleaned.startswith(("/", "~")) or ".." in cleaned.split("/") or "\0" in cleaned:
        text = f"{value!r} leads outside the run directory; give a relative path inside it"
        yield Problem(pointer(location), PATH_ESCAPES, text)


def _placeholder_problems(value: object, location: tuple[str | int, ...]) -> Iterator[Problem]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _placeholder_problems(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _placeholder_problems(item, (*location, index))
    elif isinstance(value, str) and not _secret_location(location):
        for name in re.findall(r"\$\{(\w+)\}", value):
            if name not in PLACEHOLDERS:
                text = (
                    f"${{{name}}} is not known; allowed: {allowed_names(PLACEHOLDERS)}"
                    f"{did_you_mean(name, PLACEHOLDERS)}"
                )
                yield Problem(pointer(location), UNKNOWN_PLACEHOLDER, text)


def _dig(document: object, *path: str) -> object:
    for part in path:
        if not isinstance(document, dict):
            return None
        document = document.get(part)
    return document


def _distinct(problems: Sequence[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
