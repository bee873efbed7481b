"""Secrets: kept in a private store, written everywhere else only by reference.

A secret has a place in a configuration: a field whose name says so, a proxy of W&B, or a variable
of `environment`. There it is replaced by a reference and handed to the worker. Anywhere else a
value that looks like a credential is refused: no worker would look for a reference there.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mosaic.config.credentials import HIDDEN, holds_credential, tells_of_credential
from mosaic.config.json_types import JsonValue
from mosaic.errors import SecretError
from mosaic.runs.ids import check_run_id
from mosaic.system import atomic
from mosaic.system.owner import foreign

REFERENCE_PREFIX = "secret://"
VARIABLE_PREFIX = "MOSAIC_SECRET_"
# Names under which libraries look for a secret of ours by themselves.
_NATIVE_VARIABLES = {"wandb_api_key": "WANDB_API_KEY"}
_SECRET_NAME = re.compile(
    r"(api[-_]?key|secret|passw(or)?d|passphrase|private[-_]?key|access[-_]?key|credential"
    r"|(^|[-_])(auth|access|bearer|api|session|refresh)[-_]?token|^token$|[-_]token$)",
    re.IGNORECASE,
)
# Fields whose worker resolves a reference although their name says nothing of a secret.
_ADDRESS_FIELDS = frozenset({"wandb_http_proxy", "wandb_https_proxy"})
_ENVIRONMENT = "environment"


def looks_secret(name: str) -> bool:
    """Whether a key's name says that its value must not be shown."""
    return bool(_SECRET_NAME.search(name))


def is_secret(name: str, value: object) -> bool:
    """Whether a field of a configuration must not be shown: by its name or by what it holds."""
    return looks_secret(name) or (isinstance(value, str) and bool(holds_credential(value, name)))


def is_secret_variable(name: str, value: str) -> bool:
    """Whether a variable of a run's environment is kept in the store.

    Broader than `is_secret`: the worker gets the value either way, so that taking an ordinary
    value for a secret costs nothing here.
    """
    return tells_of_credential(name) or is_secret(name, value)


def extract(document: Mapping[str, JsonValue], found: dict[str, str]) -> dict[str, JsonValue]:
    """Replace secret values in a configuration by references and collect them in `found`."""
    replaced = {key: _extract_item(key, value, found) for key, value in document.items()}
    variables = replaced.get(_ENVIRONMENT)
    if isinstance(variables, dict):
        replaced[_ENVIRONMENT] = {
            name: _reference(name, value, found)
            if isinstance(value, str) and is_secret_variable(name, value)
            else value
            for name, value in variables.items()
        }
    return replaced


def misplaced(
    document: object, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Where a document holds a credential that `extract` would leave in it, and of what kind."""
    if isinstance(document, dict):
        for key, value in document.items():
            if not _has_a_place((*path, key)):
                yield from misplaced(value, (*path, key))
    elif isinstance(document, list):
        for index, item in enumerate(document):
            yield from misplaced(item, (*path, index))
    elif isinstance(document, str):
        name = str(path[-1]) if path else ""
        if kind := holds_credential(document, name):
            yield path, kind


def _has_a_place(path: tuple[str | int, ...]) -> bool:
    """Whether a secret may be given at a path of a configuration."""
    name = str(path[-1])
    return looks_secret(name) or name in _ADDRESS_FIELDS or path == (_ENVIRONMENT,)


def _extract(document: JsonValue, found: dict[str, str]) -> JsonValue:
    if isinstance(document, dict):
        return {key: _extract_item(key, value, found) for key, value in document.items()}
    if isinstance(document, list):
        return [_extract(item, found) for item in document]
    return document


def _extract_item(key: str, value: JsonValue, found: dict[str, str]) -> JsonValue:
    address = key in _ADDRESS_FIELDS and is_secret(key, value)
    if not looks_secret(key) and not address:
        return _extract(value, found)
    # Nothing to hide, and a switch such as `use_token` must stay one.
    if value is None or value == "" or isinstance(value, bool):
        return value
    return _reference(key, value if isinstance(value, str) else json.dumps(value), found)


def _reference(key: str, text: str, found: dict[str, str]) -> str:
    if text.startswith(REFERENCE_PREFIX) or text in ("", HIDDEN):
        return text
    name = re.sub(r"[^A-Za-z0-9_]", "_", key)
    # Variables carry the names in upper case: two that differ in case alone would be one.
    taken = {known.upper(): value for known, value in found.items()}
    while taken.get(name.upper(), text) != text:
        name += "_"
    found.setdefault(name, text)
    return f"{REFERENCE_PREFIX}{name}"


def referenced(document: object) -> set[str]:
    """The names of all secrets a document refers to."""
    if isinstance(document, dict):
        return set().union(*(referenced(value) for value in document.values()))
    if isinstance(document, list):
        return set().union(*(referenced(item) for item in document))
    if isinstance(document, str) and document.startswith(REFERENCE_PREFIX):
        return {document.removeprefix(REFERENCE_PREFIX)}
    return set()


def resolve(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """The secret behind a reference, inside the worker; any other text as it is.

    Raises:
        SecretError: The reference names a secret this process was not given.
    """
    if not value.startswith(REFERENCE_PREFIX):
        return value
    name = value.removeprefix(REFERENCE_PREFIX)
    variable = VARIABLE_PREFIX + name.upper()
    if variable not in environment:
        raise SecretError(f"the secret {name!r} was not handed to this run; submit it again")
    return environment[variable]


class SecretStore:
    """One 0600 file a run in a 0700 folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, run_id: str, secrets: Mapping[str, str]) -> None:
        """Keep the secrets of a run."""
        if secrets:
            text = json.dumps(dict(secrets))
            atomic.write_text(self._path(run_id), text, mode=0o600)

    def get(self, run_id: str) -> dict[str, str]:
        """The secrets of a run.

        Raises:
            SecretError: The file is another user's, others may read it, or it is damaged.
        """
        path = self._path(run_id)
        if not path.exists():
            return {}
        info = path.stat()
        if reason := foreign(path, info):
            raise SecretError(reason)
        if info.st_mode & 0o077:
            raise SecretError(f"{path} can be read by others; run: chmod 600 {path}")
        try:
            secrets: dict[str, str] = json.loads(path.read_text())
        except ValueError:
            raise SecretError(f"{path} is damaged; submit the run again with its secret") from None
        return secrets

    def delete(self, run_id: str) -> None:
        """Forget the secrets of a run."""
        self._path(run_id).unlink(missing_ok=True)

    def environment(self, run_id: str) -> dict[str, str]:
        """The variables through which the worker receives its secrets."""
        variables = {}
        for name, value in self.get(run_id).items():
            variables[VARIABLE_PREFIX + name.upper()] = value
            native = _NATIVE_VARIABLES.get(name)
            if native:
                variables[native] = value
        return variables

    def _path(self, run_id: str) -> Path:
        return self._folder / f"{check_run_id(run_id)}.json"
