"""What a shell script for multi-phase training says about itself in its comments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NOTE = re.compile(r"^\s*#\s*@(\w+)[:\s]+(.*?)\s*$", re.MULTILINE)
_HEAD_BYTES = 64_000


@dataclass(frozen=True)
class ScriptHeader:
    """The header of a script.

    Attributes:
        description: For people.
        phases: Their names, in order.
        total_timesteps: Over all phases; 0 when it does not say.
    """

    description: str = ""
    phases: tuple[str, ...] = ()
    total_timesteps: int = 0


def read_header(path: Path) -> ScriptHeader:
    """Read `@description`, `@phases` and `@total_timesteps`.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(_HEAD_BYTES).decode(errors="replace")
    found = dict(_NOTE.findall(text))
    phases = tuple(word for word in re.split(r"[,\s]+", found.get("phases", "")) if word)
    digits = re.sub(r"[_,]", "", found.get("total_timesteps", ""))
    return ScriptHeader(
        found.get("description", ""), phases, int(digits) if digits.isdigit() else 0
    )


def scripts_in(folders: list[Path]) -> list[Path]:
    """Every `*.sh` in some folders that says what it trains."""
    found = {path for folder in folders if folder.is_dir() for path in folder.glob("*.sh")}
    return sorted(path for path in found if read_header(path) != ScriptHeader())
