"""Names of the places where runs are executed.

`local`, `slurm`, `slurm:PARTITION`, `ray`, `ray://HOST:PORT` and `ssh://USER@HOST`.
"""

import re
from dataclasses import dataclass

from mosaic.config.suggest import did_you_mean

LOCAL, SLURM, RAY, SSH = "local", "slurm", "ray", "ssh"
KNOWN = "local, slurm, slurm:PARTITION, ray, ray://HOST:PORT or ssh://USER@HOST"
_ENGINES = (LOCAL, SLURM, RAY, SSH)
_RAY_PART = re.compile(r"//[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5}\Z")
# What SLURM itself allows in the name of a partition; several, separated by commas, let it choose.
_PARTITION = re.compile(r"[A-Za-z0-9_.\-]+(,[A-Za-z0-9_.\-]+)*\Z")


@dataclass(frozen=True)
class SiteName:
    """Where a run is executed.

    Attributes:
        engine: Who places it: `local`, `slurm`, `ray` or `ssh`.
        part: The part of the engine: a partition of SLURM, empty for its default; `//HOST:PORT` of
            a Ray cluster, empty for that of this machine; `//USER@HOST` and what else the address
            of a machine has.
    """

    engine: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.engine}:{self.part}" if self.part else self.engine


def read_site(text: str) -> SiteName:
    """The place that a name stands for.

    Raises:
        ValueError: There is none of this name.
    """
    engine, colon, part = text.partition(":")
    if engine not in _ENGINES:
        raise ValueError(f"{text!r} is not a site: {KNOWN}{did_you_mean(engine, _ENGINES)}")
    if engine == SSH:
        return SiteName(SSH, _machine(text).removeprefix(f"{SSH}:"))
    if engine == RAY and colon and not _RAY_PART.match(part):
        raise ValueError(f"{text!r} is not a site: write ray, or ray://HOST:PORT")
    if engine == LOCAL and colon:
        raise ValueError(f"{text!r} is not a site: local has no parts")
    if engine == SLURM and colon and not _PARTITION.match(part):
        raise ValueError(f"{text!r} is not a site: {part!r} cannot be the name of a partition")
    return SiteName(engine, part)


def _machine(text: str) -> str:
    """The address of a machine in its usual form."""
    # Here: the address of a home that `--connect` reaches is the same, and knows this package.
    from mosaic.connect.remote_home import RemoteHome
    from mosaic.errors import InvalidArgumentError

    try:
        return str(RemoteHome.parse(text))
    except InvalidArgumentError as error:
        raise ValueError(f"{text!r} is not a site: {error}") from None


def check(text: str) -> str:
    """The same text, if it names a site.

    Raises:
        ValueError: It does not.
    """
    return str(read_site(text))
