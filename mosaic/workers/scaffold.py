"""`mosaic worker new`: a package of one's own that already passes `mosaic check-worker`."""

import keyword
from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from mosaic.errors import InvalidArgumentError
from mosaic.system import atomic

PLACEHOLDER = "my_worker"


def check_name(name: str, taken: Iterable[str]) -> None:
    """Refuse a name that cannot become a worker and a package.

    Raises:
        InvalidArgumentError: With what is wrong.
    """
    if not name.isidentifier() or not name.isascii() or name != name.lower():
        raise InvalidArgumentError(
            f"{name!r} cannot be a package; use lower-case letters, digits and underscores"
        )
    if keyword.iskeyword(name) or name in ("mosaic", "test", "tests"):
        raise InvalidArgumentError(f"{name!r} has a meaning of its own; choose another name")
    if name in taken:
        raise InvalidArgumentError(f"there is a worker {name!r} already; choose another name")


def write_package(name: str, folder: Path) -> list[Path]:
    """Write the package; the files, in the order of their names.

    Raises:
        InvalidArgumentError: The folder exists and is not empty.
        OSError: It cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InvalidArgumentError(f"{folder} exists and is not empty; choose another folder")
    template = files("mosaic.workers.template")
    written = []
    for source, path in _sources(template, Path()):
        # `.txt` keeps tools of this repository from taking a template for the real thing.
        place = Path(str(path).removesuffix(".txt").replace(PLACEHOLDER, name))
        if place != Path("__init__.py"):
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_text(target, source.read_text().replace(PLACEHOLDER, name))
            written.append(target)
    return sorted(written)


def _sources(folder: Traversable, below: Path) -> Iterable[tuple[Traversable, Path]]:
    for item in folder.iterdir():
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _sources(item, below / item.name)
        elif not item.name.endswith(".pyc"):
            yield item, below / item.name
