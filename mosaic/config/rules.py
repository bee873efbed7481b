"""What a document may not say, although its types allow it: variables, paths, secrets, and more."""

import re
from collections.abc import Iterator, Mapping, Sequence

from mosaic.config.problems import (
    DENIED_VARIABLE,
    MISPLACED_CREDENTIAL,
    OUT_OF_RANGE,
    PATH_ESCAPES,
    UNKNOWN_PLACEHOLDER,
    pointer,
)
from mosaic.config.secrets import misplaced
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.config.type_problems import secret_location
from mosaic.errors import Problem

PLACEHOLDERS = ("RUN_ID", "RUN_DIR", "VAR_TENSORBOARD_DIR")

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


def semantic_problems(nested: Mapping[str, object]) -> Iterator[Problem]:
    """What the types cannot say; reads the raw document so that it works beside type errors."""
    environment = nested.get("environment")
    if isinstance(environment, dict):
        yield from _environment_problems(environment)
    gpus = dig(nested, "resources", "gpus")
    if isinstance(gpus, dict):
        requested, mandatory = gpus.get("requested", 0), gpus.get("mandatory", 0)
        if (
            isinstance(requested, int)
            and isinstance(mandatory, int)
            and mandatory > max(0, requested)
        ):
            text = f"{mandatory} mandatory GPUs are more than the {requested} requested"
            yield Problem("/resources/gpus/mandatory", OUT_OF_RANGE, text)
    extras = dig(nested, "metadata", "worker", "config", "extras")
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
    elif isinstance(value, str) and not secret_location(location):
        for name in re.findall(r"\$\{(\w+)\}", value):
            if name not in PLACEHOLDERS:
                text = (
                    f"${{{name}}} is not known; allowed: {allowed_names(PLACEHOLDERS)}"
                    f"{did_you_mean(name, PLACEHOLDERS)}"
                )
                yield Problem(pointer(location), UNKNOWN_PLACEHOLDER, text)


def dig(document: object, *path: str) -> object:
    """What is at a path of a document; None where there is nothing."""
    for part in path:
        if not isinstance(document, dict):
            return None
        document = document.get(part)
    return document
