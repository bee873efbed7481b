"""Where everything lives: one home, and confinement of every path to its root."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from mosaic.errors import ConfinementError, StorageError
from mosaic.system.owner import foreign

HOME_VARIABLE = "MOSAIC_HOME"


_CHECKOUT = Path(__file__).resolve().parents[2]


def in_checkout() -> bool:
    """Whether MOSAIC runs from its repository, where `make` has its commands."""
    return (_CHECKOUT / "pyproject.toml").exists()


def project_root() -> Path:
    """The checkout this package runs from, or the working directory of an installed one."""
    return _CHECKOUT if in_checkout() else Path.cwd()


def how_to_install(target: str, extra: str) -> str:
    """The command that installs an optional part: of the checkout, or of the installed package."""
    return f"make {target}" if in_checkout() else f'pip install "mosaic-rl[{extra}]"'


def _default_home() -> Path:
    if in_checkout():
        return _CHECKOUT / "var"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "mosaic"


@dataclass(frozen=True)
class Home:
    """The folder tree of one MOSAIC home (`var/` of a checkout unless MOSAIC_HOME moves it)."""

    root: Path

    @classmethod
    def locate(cls, root: str | Path | None = None) -> "Home":
        """The home named here, or by MOSAIC_HOME, or `var/` of the checkout.

        Without a checkout it is the user's data folder, so that every folder has the same home.
        """
        chosen = root or os.environ.get(HOME_VARIABLE) or _default_home()
        return cls(Path(chosen).expanduser().absolute())

    @property
    def trainer(self) -> Path:
        return self.root / "trainer"

    @property
    def runs(self) -> Path:
        return self.trainer / "runs"

    @property
    def configs(self) -> Path:
        return self.trainer / "configs"

    @property
    def trash(self) -> Path:
        return self.trainer / "trash"

    @property
    def registry(self) -> Path:
        return self.trainer / "registry.sqlite3"

    @property
    def lock(self) -> Path:
        return self.trainer / "daemon.lock"

    @property
    def endpoint(self) -> Path:
        """`daemon.json`: who serves this home, where."""
        return self.trainer / "daemon.json"

    @property
    def token(self) -> Path:
        return self.trainer / "token"

    @property
    def secrets(self) -> Path:
        return self.trainer / "secrets"

    @property
    def launches(self) -> Path:
        """What supervisors on other machines are started with; each file is read once."""
        return self.trainer / "launches"

    @property
    def logs(self) -> Path:
        return self.root / "logs" / "trainer"

    @property
    def daemon_log(self) -> Path:
        return self.root / "logs" / "daemon.log"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    def create(self) -> None:
        """Make the folders, for the owner alone whatever the umask says.

        Files in them need no mode of their own then: no other user can reach them.

        Raises:
            StorageError: The home, or a folder in it, belongs to another user or is shared by all.
            OSError: The disk refuses.
        """
        self.root.parent.mkdir(parents=True, exist_ok=True)
        _make_unwritable(self.root)
        for folder in (self.trainer, self.root / "logs", self.cache):
            _make_private(folder)
        for folder in (self.runs, self.configs, self.trash, self.secrets, self.launches, self.logs):
            _make_private(folder)

    def run_dir(self, run_id: str) -> Path:
        """The directory of a run; `run_id` must have passed `mosaic.runs.ids.check_run_id`."""
        return self.runs / run_id


def _make_private(folder: Path) -> None:
    """A folder of the home that no other user may enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_foreign(folder)
    # Also one that was there before, perhaps made by hand with another umask.
    folder.chmod(0o700)


def _make_unwritable(root: Path) -> None:
    """The home itself: it may hold other things of the user, so others may still read it.

    No other user may write in it: they could replace our folders with their own.
    """
    root.mkdir(mode=0o700, exist_ok=True)
    _refuse_foreign(root)
    mode = root.stat().st_mode
    if mode & stat.S_ISVTX:
        raise StorageError(
            f"{root} is shared by all users and cannot be a home; choose a folder of your own, "
            f"such as MOSAIC_HOME={root / 'mosaic'}"
        )
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        root.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _refuse_foreign(folder: Path) -> None:
    # The link and what it leads to: the owner of a link decides where it leads tomorrow.
    for info in (folder.lstat(), folder.stat()):
        if reason := foreign(folder, info):
            raise StorageError(reason)


def confine(root: Path, relative: str | Path) -> Path:
    """Resolve `relative` under `root`, following links, and refuse to leave it.

    Raises:
        ConfinementError: The path is absolute, has a NUL, or ends up outside `root`.
    """
    text = os.fspath(relative)
    if "\0" in text:
        raise ConfinementError(text, root)
    resolved_root = root.resolve()
    resolved = (resolved_root / text).resolve()
    if not resolved.is_relative_to(resolved_root):
        raise ConfinementError(text, root)
    return resolved
