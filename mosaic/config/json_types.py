"""The types of JSON data, for modules that must not load pydantic.

A script that is started by hand reads its flags with `mosaic.config.flags`; it should not wait
for pydantic's import.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    JsonValue = object

__all__ = ["JsonValue", "object_at"]


def object_at(document: object, *path: str) -> dict[str, JsonValue]:
    """The object at a path inside a document, such as the worker's part of a configuration.

    Empty where there is none: a document may be damaged, or of another version.
    """
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}
