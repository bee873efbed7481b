"""Environments on the device by id.

The twins of Gymnasium's classic control and of our Recall come with the worker, and adapters for
the packages of `package_ids`. An installed package adds its own under the entry point group
`mosaic.device_environments`: the name is the id, the value a function without arguments that
returns a `DeviceEnv`. A program adds one to itself with `register`.

JAX is imported by `make` and not before: the daemon asks only for names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import TYPE_CHECKING

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.ondevice.package_ids import PACKAGES, package_ids, package_of
from mosaic.config.suggest import nearest

if TYPE_CHECKING:
    from cleanrl_worker.ondevice.environment import DeviceEnv

ENTRY_POINTS = "mosaic.device_environments"
# Id to module and class; each means the same environment as the id does in Gymnasium.
TWINS: Mapping[str, str] = {
    "CartPole-v1": "classic_control:CartPole",
    "Acrobot-v1": "classic_control:Acrobot",
    "MountainCar-v0": "classic_control:MountainCar",
    "MountainCarContinuous-v0": "classic_control:MountainCarContinuous",
    "Pendulum-v1": "classic_control:Pendulum",
    "mosaic/Recall-v0": "recall:Recall",
    "HalfCheetah-v5": "mujoco_twins:HalfCheetah",
    "Hopper-v5": "mujoco_twins:Hopper",
    "Swimmer-v5": "mujoco_twins:Swimmer",
    "Walker2d-v5": "mujoco_twins:Walker2d",
}
# What the module of a twin needs beside JAX: the package, and the requirement set that has it.
_NEEDS = {"mujoco_twins": ("mujoco-mjx", "mjx")}
_added: dict[str, Callable[[], DeviceEnv]] = {}


def register(env_id: str, build: Callable[[], DeviceEnv]) -> None:
    """Make an environment known to this process."""
    _added[env_id] = build


def names() -> list[str]:
    """Every id that `make` knows here."""
    return sorted({*TWINS, *package_ids(), *_added, *_installed()})


def is_ours(env_id: str) -> bool:
    """Whether the environment comes with the worker, as a twin or as an adapted package's."""
    return env_id in TWINS or package_of(env_id) is not None


def only_here(env_id: str) -> bool:
    """Whether Gymnasium has no such environment, or one that no network acts in."""
    if env_id in TWINS:
        return False
    return package_of(env_id) is not None or env_id in _added or env_id in _installed()


def problem(env_id: str) -> str:
    """Why there is no such environment on the device; empty when there is one."""
    # Looking through every installed package takes long; most ids need no such look.
    if is_ours(env_id):
        return _missing(env_id)
    known = names()
    if env_id in known:
        return ""
    close = nearest(env_id, known)
    hint = f" The nearest one is {close!r}." if close else ""
    listed = [name for name in known if package_of(name) is None]
    families = [f"{prefix}/…" for prefix in PACKAGES]
    return (
        f"{env_id!r} has no version in JAX, and this algorithm compiles the environment with the "
        f"rest: use one of {', '.join([*listed, *families])}, an algorithm without _ondevice in "
        f"its name, or register your own (docs/guides/on-device.md).{hint}"
    )


def needed_set(env_id: str) -> str:
    """The requirement set that an environment on the device needs beside JAX's; may be empty."""
    return _needs(env_id)[1]


def _needs(env_id: str) -> tuple[str, str]:
    if (package := package_of(env_id)) is not None:
        return package.distribution, package.requirement_set
    return _NEEDS.get(TWINS.get(env_id, "").partition(":")[0], ("", ""))


def _missing(env_id: str) -> str:
    """Which package an environment lacks, and what installs it."""
    package, requirement_set = _needs(env_id)
    if not package or _is_installed(package):
        return ""
    return (
        f"{env_id!r} on the device needs {package}; run: "
        f"python -m cleanrl_worker.tools.install_extras --set {requirement_set}"
    )


def _is_installed(package: str) -> bool:
    # By its metadata: asking the import system for a part of MuJoCo would import MuJoCo.
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def make(env_id: str) -> DeviceEnv:
    """Build an environment.

    Raises:
        UsageError: There is none of this id.
    """
    if sentence := problem(env_id):
        raise UsageError(sentence)
    if env_id in TWINS:
        return _loader(f"cleanrl_worker.ondevice.{TWINS[env_id]}")()
    if (package := package_of(env_id)) is not None:
        module = importlib.import_module(f"cleanrl_worker.ondevice.{package.module}")
        adapted: DeviceEnv = module.make(*env_id.split("/")[::-1])
        return adapted
    return {**_installed(), **_added}[env_id]()


def _installed() -> dict[str, Callable[[], DeviceEnv]]:
    return {point.name: _loader(point.value) for point in entry_points(group=ENTRY_POINTS)}


def _loader(value: str) -> Callable[[], DeviceEnv]:
    """Import only what is asked for: one package that does not load must not hide the others."""

    def load() -> DeviceEnv:
        module, _, attribute = value.partition(":")
        built: DeviceEnv = getattr(importlib.import_module(module), attribute)()
        return built

    return load
