"""From text to `TrainRunConfig`, or to every problem at once."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from pydantic import ValidationError

from mosaic.config.model import TrainRunConfig, WorkerRunConfig
from mosaic.config.problems import DUPLICATE_KEY, NOT_JSON, TOO_LARGE, UNKNOWN_WORKER, pointer
from mosaic.config.rules import dig, semantic_problems
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.config.type_problems import MOST_PROBLEMS, explain, telling
from mosaic.errors import InvalidConfigError, Problem

# A document that a person or a form makes has some kilobytes.
MAX_CONFIG_BYTES = 1_000_000
# Far beyond what any worker has, and far below what makes a check slow or recurse too deeply.
_DEEPEST, _MOST_KEYS = 50, 1000

WorkerFinder = Callable[[str], str]
WorkerConfigType = TypeVar("WorkerConfigType", bound=WorkerRunConfig)


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
        problems += [explain(detail, TrainRunConfig) for detail in telling(error.errors())]
        problems += semantic_problems(nested)
        # The semantic rules read the raw document, so that one answer has all the mistakes.
        return None, _distinct(problems)
    problems += semantic_problems(nested)
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
    fields = dig(parsed, "metadata", "worker", "config")
    if not isinstance(fields, dict):
        # The flat shape may name the worker, and what only the daemon acts on, beside the fields.
        beside = {"worker", *TrainRunConfig.model_fields}
        fields = {name: value for name, value in parsed.items() if name not in beside}
    try:
        config = kind.model_validate(fields)
    except ValidationError as error:
        base = ("metadata", "worker", "config")
        problems += [explain(detail, kind, base) for detail in telling(error.errors())]
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
            if key in result and len(duplicates) < MOST_PROBLEMS:
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


def _distinct(problems: Sequence[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
