"""Where everything lives: one home, and confinement of every path to its root."""

import os
from dataclasses import dataclass
from pathlib import Path

from mosaic.errors import ConfinementError

HOME_VARIABLE = "MOSAIC_HOME"


def project_root() -> Path:
    """The checkout this package runs from, or the working directory of an installed one."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").exists() else Path.cwd()


@dataclass(frozen=True)
class Home:
    """The folder tree of one MOSAIC home (`var/` unless MOSAIC_HOME moves it)."""

    root: Path

    @classmethod
    def locate(cls, root: str | Path | None = None) -> "Home":
        """The home named here, or by MOSAIC_HOME, or `var/` of the project."""
        chosen = root or os.environ.get(HOME_VARIABLE) or project_root() / "var"
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
        """Make the folders; the trainer's own are for the owner alone."""
        for folder in (self.runs, self.configs, self.trash, self.logs, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        self.secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.trainer.chmod(0o700)

    def run_dir(self, run_id: str) -> Path:
        """The directory of a run; `run_id` must have passed `mosaic.runs.ids.check_run_id`."""
        return self.runs / run_id


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
