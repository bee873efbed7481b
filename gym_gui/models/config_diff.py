"""What two configs have in common and where they differ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

ABSENT = "—"


@dataclass(frozen=True)
class DiffRow:
    """One setting and its value in each config."""

    key: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the configs disagree."""
        return len(set(self.values)) > 1


def flatten(document: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every value of a document with its dotted path; an object without any has none."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, document if isinstance(document, str) else json.dumps(document)


def diff(documents: Sequence[Mapping[str, object]]) -> list[DiffRow]:
    """Every setting of any config; those that differ come first."""
    flat = [dict(flatten(document)) for document in documents]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    rows = [DiffRow(_short(key), tuple(one.get(key, ABSENT) for one in flat)) for key in keys]
    return sorted(rows, key=lambda row: (not row.differs, row.key))


def _short(key: str) -> str:
    return key.removeprefix("metadata.worker.config.")
