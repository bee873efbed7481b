"""From an algorithm's name to the script that runs it: bundled, or the user's own upstream copy."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from cleanrl_worker.running.schema import SCRIPTS, ScriptSchema, read_schema, script_names
from mosaic.workers import Home, allowed_names, did_you_mean

UPSTREAM_PREFIX = "cleanrl:"
HOME_VARIABLE = "CLEANRL_HOME"

DEFAULT_ALGO_REGISTRY: dict[str, str] = {
    name: f"cleanrl_worker.cleanrl.{name}" for name in script_names()
}


_searched: ContextVar[str] = ContextVar("searched", default="")


class UnknownAlgorithmError(ValueError):
    """No script has this name; the text says which there are."""


@dataclass(frozen=True)
class Script:
    """A script that can be run.

    Attributes:
        name: As the user typed it.
        module: Its module when it is bundled or an installed package, else empty.
        path: Its file.
        bundled: Whether it is one of ours, which talks over the bridge by itself.
    """

    name: str
    module: str
    path: Path
    bundled: bool

    @property
    def schema(self) -> ScriptSchema:
        """What the script says about itself."""
        return read_schema(self.path)

    @property
    def target(self) -> str:
        """What the launcher runs."""
        return self.module or str(self.path)


@contextmanager
def searching(folder: str) -> Iterator[None]:
    """Look for upstream scripts in a folder that a run names itself, before any other."""
    token = _searched.set(folder)
    try:
        yield
    finally:
        _searched.reset(token)


def resolve(name: str) -> Script:
    """The script behind an algorithm's name.

    Raises:
        UnknownAlgorithmError: There is none.
    """
    if name.startswith(UPSTREAM_PREFIX):
        return _upstream(name.removeprefix(UPSTREAM_PREFIX), name)
    module = DEFAULT_ALGO_REGISTRY.get(name)
    if module is None:
        raise UnknownAlgorithmError(
            f"there is no algorithm {name!r}; allowed: "
            f"{allowed_names(DEFAULT_ALGO_REGISTRY, limit=40)}"
            f"{did_you_mean(name, DEFAULT_ALGO_REGISTRY)}"
        )
    return Script(name, module, SCRIPTS / f"{name}.py", bundled=True)


def _upstream(short: str, name: str) -> Script:
    if not short.isidentifier():
        raise UnknownAlgorithmError(f"{name!r} does not name a script; write cleanrl:ppo")
    folder = _searched.get() or os.environ.get(HOME_VARIABLE) or _setting()
    if folder:
        root = Path(folder).expanduser()
        for candidate in (root / "cleanrl" / f"{short}.py", root / f"{short}.py"):
            if candidate.is_file():
                return Script(name, "", candidate.resolve(), bundled=False)
        scripts = [path.stem for path in (*root.glob("cleanrl/*.py"), *root.glob("*.py"))]
        raise UnknownAlgorithmError(
            f"{root} has no script {short}.py{did_you_mean(short, scripts)}; "
            f"{HOME_VARIABLE} names the checkout that is searched"
        )
    try:
        found = importlib.util.find_spec(f"cleanrl.{short}")
    except ModuleNotFoundError:
        found = None
    if found is None or found.origin is None:
        raise UnknownAlgorithmError(
            f"{name!r} needs an upstream CleanRL: install its package, or set {HOME_VARIABLE} "
            "(or the setting worker_environment) to a checkout"
        )
    return Script(name, f"cleanrl.{short}", Path(found.origin), bundled=False)


def _setting() -> str:
    """The checkout that the home's settings name; empty when they name none."""
    # Settings load pydantic, which a script that is started by hand does not need otherwise.
    from mosaic.config.settings import load_settings

    return load_settings(Home.locate()).worker_variables.get(HOME_VARIABLE, "")
