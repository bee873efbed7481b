"""The types of JSON data, for modules that must not load pydantic.

A script that is started by hand reads its flags with `mosaic.config.flags`; it should not wait
for pydantic's import.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    JsonValue = object

__all__ = ["JsonValue"]
