"""The header of a shell script that trains in several phases.

    # @description Learn small rooms first, then large ones
    # @phases warm-up, large rooms
    # @total_timesteps 200000

A colon may follow each name. Phases are separated by commas, so that a name may have spaces; a
bare number stands for that many phases. The window, the command line and the worker all read
headers here.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_NOTE = re.compile(r"^\s*#\s*@(description|phases|total_timesteps)\b[:\s]*(.*?)\s*$", re.MULTILINE)
# A larger file is no script that a person wrote.
_LARGEST = 1_000_000
_MOST_PHASES = 1000


@dataclass(frozen=True)
class PipelineHeader:
    """What a script says about itself.

    Attributes:
        description: For people.
        phases: The names of its phases, in order.
        total_timesteps: Steps of all phases together; 0 when it does not say.
    """

    description: str = ""
    phases: tuple[str, ...] = ()
    total_timesteps: int = 0


def read_header(path: Path) -> PipelineHeader:
    """Read a script's header.

    Raises:
        ValueError: With a sentence, when it cannot be read or says something impossible.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"{path} is larger than {_LARGEST} bytes: not a script")
        text = path.read_text()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file") from None
    found: dict[str, str] = dict(_NOTE.findall(text))
    total = found.get("total_timesteps", "0").replace("_", "").replace(",", "")
    if not total.isdigit():
        raise ValueError(f"{path}: @total_timesteps must be a whole number, not {total!r}")
    return PipelineHeader(
        found.get("description", ""), _phases(found.get("phases", "")), int(total)
    )


def described_scripts(folders: Iterable[Path]) -> list[Path]:
    """Every `*.sh` in some folders that says what it trains."""
    found = {path for folder in folders if folder.is_dir() for path in folder.glob("*.sh")}
    return sorted(path for path in found if _describes_itself(path))


def _describes_itself(path: Path) -> bool:
    try:
        return read_header(path) != PipelineHeader()
    except ValueError:
        return False


def _phases(text: str) -> tuple[str, ...]:
    if text.isdigit():
        return tuple(f"phase {number + 1}" for number in range(min(int(text), _MOST_PHASES)))
    return tuple(name.strip() for name in text.split(",") if name.strip())
