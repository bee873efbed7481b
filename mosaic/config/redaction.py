"""Taking secrets out of what leaves the home: support bundles and archives."""

import re

from mosaic.config.credentials import HIDDEN, MARKERS, hide_credentials
from mosaic.config.json_types import JsonValue
from mosaic.config.secrets import REFERENCE_PREFIX, is_secret_variable, looks_secret

# Names in capitals are variables of an environment; `sort_key: …` in a log is none.
_ASSIGNMENT = re.compile(
    r"(?i)((?:api[_-]?key|secret|passw(?:or)?d|token|authorization"
    r"|(?-i:[A-Z0-9]_(?:KEY|PASS)|[A-Z0-9_]{2}(?<!OLD)PWD))[\"']?\s*[:=](?!=)\s*[\"']?)"
    r"([^\s\"',}]+)"
)
# The form of W&B's older keys. A commit's name has it too, and is hidden with them.
_LONG_HEX = re.compile(r"\b[0-9a-f]{40}\b")
# Words without which no assignment is found; looking for them is many times quicker.
_WORDS = (b"key", b"secret", b"pass", b"pwd", b"token", b"authorization", *MARKERS)
_LONG_HEX_BYTES = re.compile(rb"[0-9a-f]{40}")


def may_hold_secret(content: bytes) -> bool:
    """Whether `redact_text` could change anything; a quick look, for logs of gigabytes."""
    lowered = content.lower()
    return any(word in lowered for word in _WORDS) or bool(_LONG_HEX_BYTES.search(content))


def redact_text(text: str) -> str:
    """Lines without what looks like a secret."""
    return _LONG_HEX.sub(HIDDEN, _hide(text))


def redact(value: JsonValue, name: str = "") -> JsonValue:
    """A document without what looks like a secret; references to secrets stay."""
    if looks_secret(name) and value not in (None, "", True, False):
        refers = isinstance(value, str) and value.startswith(REFERENCE_PREFIX)
        return value if refers else HIDDEN
    if isinstance(value, dict):
        inside = _redact_variable if name == "environment" else redact
        return {key: inside(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    if not isinstance(value, str):
        return value
    # In a text of several lines, such as the difference to the last commit, `token = …` is code.
    return hide_credentials(value) if "\n" in value else _hide(value)


def _redact_variable(value: JsonValue, name: str) -> JsonValue:
    """A variable of a run's environment, by the rule that keeps it in the store today.

    Runs that were submitted before there was this rule hold the value itself.
    """
    if not isinstance(value, str) or value.startswith(REFERENCE_PREFIX) or not value:
        return redact(value, name)
    hidden = _hide(value)
    return HIDDEN if hidden == value and is_secret_variable(name, value) else hidden


def _hide(text: str) -> str:
    return hide_credentials(_ASSIGNMENT.sub(_hide_value, text))


def _hide_value(match: "re.Match[str]") -> str:
    refers = match[2].startswith(REFERENCE_PREFIX)
    return match[0] if refers else match[1] + HIDDEN
