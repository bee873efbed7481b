"""Taking secrets out of what leaves the home: support bundles and archives."""

import re
from typing import Any

from mosaic.config.secrets import REFERENCE_PREFIX, looks_secret

HIDDEN = "[removed]"
_ASSIGNMENT = re.compile(
    r"(?i)((?:api[_-]?key|secret|passw(?:or)?d|token|authorization)[\"']?\s*[:=]\s*[\"']?)"
    r"([^\s\"',}]+)"
)
_LONG_HEX = re.compile(r"\b[0-9a-f]{40}\b")
# Words without which no assignment is found; looking for them is many times quicker.
_WORDS = (b"key", b"secret", b"passw", b"token", b"authorization")
_LONG_HEX_BYTES = re.compile(rb"[0-9a-f]{40}")


def may_hold_secret(content: bytes) -> bool:
    """Whether `redact_text` could change anything; a quick look, for logs of gigabytes."""
    lowered = content.lower()
    return any(word in lowered for word in _WORDS) or bool(_LONG_HEX_BYTES.search(content))


def redact_text(text: str) -> str:
    """Lines without what looks like a secret."""
    hidden = _ASSIGNMENT.sub(_hide_value, text)
    return _LONG_HEX.sub(HIDDEN, hidden)


def redact(value: Any, name: str = "") -> Any:
    """A document without what looks like a secret; references to secrets stay."""
    if looks_secret(name) and value not in (None, "", True, False):
        refers = isinstance(value, str) and value.startswith(REFERENCE_PREFIX)
        return value if refers else HIDDEN
    if isinstance(value, dict):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def _hide_value(match: "re.Match[str]") -> str:
    refers = match[2].startswith(REFERENCE_PREFIX)
    return match[0] if refers else match[1] + HIDDEN
