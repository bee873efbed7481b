"""The bytes of a file as they may leave the home: read in pieces, secrets taken out."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from mosaic.config.credentials import HIDDEN, forms_of
from mosaic.config.redaction import may_hold_secret, redact, redact_text
from mosaic.errors import HoldsSecretError

PIECE = 2**20
# A document is in memory several times while it is cleaned; a larger one is cleaned as text.
_LARGEST_DOCUMENT = 16 * 2**20
_DOCUMENT = (".json",)
_TEXT = (
    ".jsonl", ".log", ".txt", ".yaml", ".yml", ".toml", ".ini", ".md", ".csv", ".sh", ".asl",
    ".out", ".err", ".diff", ".patch",
)  # fmt: skip
# A shorter value would hide ordinary words and numbers of a log.
_SHORTEST_SECRET = 6


def plain_pieces(path: Path) -> Iterator[bytes]:
    """A file as it is.

    Raises:
        OSError: It is gone, or a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


class Cleaner:
    """Reads files without the given secrets and without what looks like one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        written = {form for text in secrets for form in forms_of(text)}
        # JSON writes quotes, backslashes and line ends of a secret in another way.
        escaped = {json.dumps(form)[1:-1] for form in written}
        self._secrets = sorted(
            (text.encode() for text in written | escaped if len(text) >= _SHORTEST_SECRET),
            key=len,
            reverse=True,
        )

    @staticmethod
    def may_change(path: Path) -> bool:
        """Whether a file is of a kind in which secrets are replaced."""
        return path.suffix.lower() in _DOCUMENT + _TEXT

    def pieces(self, path: Path) -> Iterator[bytes]:
        """A file as it may leave the home.

        Raises:
            HoldsSecretError: It still holds a secret: it is binary, or the secret is spread over
                several lines.
            OSError: It is gone, or a link.
        """
        return self._proven(self._cleaned(path))

    def holds(self, content: bytes) -> bool:
        """Whether one of the given secrets is in some bytes."""
        return any(secret in content for secret in self._secrets)

    def _cleaned(self, path: Path) -> Iterator[bytes]:
        raw = plain_pieces(path)
        if path.suffix.lower() in _DOCUMENT and path.lstat().st_size <= _LARGEST_DOCUMENT:
            yield from self._document(b"".join(raw))
        elif self.may_change(path):
            yield from self._text(raw)
        else:
            yield from raw

    def _document(self, content: bytes) -> Iterator[bytes]:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            yield from self._text(iter([content]))
            return
        clean = redact(document)
        if clean != document:
            content = json.dumps(clean, indent=2, ensure_ascii=False).encode() + b"\n"
        yield self._without_known(content)

    def _text(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        rest = b""
        for piece in raw:
            rest += piece
            # Whole lines, or a secret could be cut in two and be found in neither half.
            cut = rest.rfind(b"\n") + 1
            if not cut and len(rest) < 2 * PIECE:
                continue
            cut = cut or len(rest)
            yield self._without_known(_clean_lines(rest[:cut]))
            rest = rest[cut:]
        if rest:
            yield self._without_known(_clean_lines(rest))

    def _proven(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces, as long as none of the secrets is in them or across two of them."""
        overlap = max(map(len, self._secrets), default=1) - 1
        before = b""
        for piece in pieces:
            seen = before + piece
            if self.holds(seen):
                raise HoldsSecretError
            before = seen[-overlap:] if overlap else b""
            yield piece

    def _without_known(self, content: bytes) -> bytes:
        for secret in self._secrets:
            if secret in content:
                content = content.replace(secret, HIDDEN.encode())
        return content


def _clean_lines(content: bytes) -> bytes:
    if not may_hold_secret(content):
        return content
    text = content.decode(errors="surrogateescape")
    if redact_text(text) == text:
        return content
    cleaned = "".join(map(_clean_line, text.splitlines(keepends=True)))
    return cleaned.encode(errors="surrogateescape")


def _clean_line(line: str) -> str:
    clean = redact_text(line)
    if clean == line or not line.startswith("{"):
        return clean
    # A line of an event log must stay what it is: JSON.
    try:
        return json.dumps(redact(json.loads(line))) + "\n"
    except (ValueError, RecursionError):
        return clean
