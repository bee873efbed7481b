"""Settings of a home: one schema, one file, overridable from the environment."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mosaic.config import sites
from mosaic.config.declaring import Misfit, changed, fit, setting, settings_of
from mosaic.config.paths import Home
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidConfigError, Problem
from mosaic.system import atomic
from mosaic.system.owner import foreign, writable_by_others

_VARIABLE_PREFIX = "MOSAIC_SETTING_"
WRONG_SETTING = "SET101"


def check_options(text: str) -> None:
    """Refuse words that are no options of a command.

    Raises:
        ValueError: One of them is not.
    """
    for word in shlex.split(text):
        if not word.startswith("-"):
            raise ValueError(f"{word!r} is not an option; write --name=value")


def read_variables(text: str) -> dict[str, str]:
    """Variables written as in a shell: `NAME=VALUE OTHER="two words"`.

    Raises:
        ValueError: A part is not of this form.
    """
    variables = {}
    for part in shlex.split(text):
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{part!r} is not NAME=VALUE")
        variables[name] = os.path.expanduser(value)
    return variables


def read_demand(text: str) -> dict[str, float]:
    """Resources and how much of each: `a100=1 big=0.5`.

    Raises:
        ValueError: A part is not of this form.
    """
    demand = {}
    for part in text.split():
        name, _, amount = part.partition("=")
        try:
            demand[name] = float(amount)
        except ValueError:
            raise ValueError(f"{part!r} is not NAME=NUMBER") from None
        if not name or demand[name] <= 0:
            raise ValueError(f"{part!r} is not NAME=NUMBER")
    return demand


@dataclass(frozen=True)
class Settings:
    """What a user may change about the daemon and the workers it starts."""

    schema_version: int = 1
    site: str = setting(sites.LOCAL, "Where runs go", sites.KNOWN, check=sites.check)
    port: int = setting(50055, "Preferred port", least=0, most=65535)
    auto_start: bool = setting(False, "Start when needed", "`mosaic train` starts the daemon")
    cpu_slots: int | None = setting(None, "CPU slots", "none: one per CPU", least=1)
    grace_s: float = setting(30.0, "Grace period", "seconds from SIGTERM to SIGKILL", above=0)
    # Twice what a worker waits for an absent daemon: one that is only slow is not given up.
    handshake_timeout_s: float = setting(
        60.0, "Handshake deadline", "seconds for a worker to report", above=0
    )
    check_timeout_s: float = setting(
        60.0, "Check deadline", "seconds to check a configuration", above=0
    )
    # Nine heartbeats. A worker that is only slow has sent one by then.
    stall_after_s: float = setting(
        90.0, "Stalled after", "seconds without a heartbeat or a step", above=0
    )
    # Some minutes: a controller that is restarted is silent for that long, and may have forgotten.
    lost_after_s: float = setting(
        120.0,
        "Lost after",
        "seconds that a run on a cluster is silent and its job is known to be over",
        above=0,
    )
    site_poll_s: float = setting(5.0, "Ask the cluster every", "seconds", above=0)
    slurm_account: str = setting("", "SLURM account", "empty: the user's default")
    slurm_options: str = setting(
        "",
        "SLURM options",
        "more options of sbatch, such as --qos=long --constraint=a100",
        check=check_options,
    )
    ray_resources: str = setting(
        "",
        "Ray resources",
        "custom resources that each run asks of Ray, such as a100=1",
        check=read_demand,
    )
    retry_lost: bool = setting(False, "Retry lost runs", "submit lost runs again automatically")
    gpu_idle_memory_mb: int | None = setting(
        None, "GPU must be idle", "at most this much memory in use, MB", least=0
    )
    warm_start: bool = setting(True, "Warm start", "fork runs from a process with torch loaded")
    min_free_disk_mb: int = setting(200, "Disk space to keep free", "MB", least=0)
    trash_days: float = setting(7.0, "Days in the trash", least=0)
    log_cap_mb: int = setting(5120, "Largest log of a run", "MB", least=1)
    worker_environment: str = setting(
        "",
        "Variables of workers",
        "NAME=VALUE, several separated by spaces; quote a value with spaces",
        check=read_variables,
    )

    @property
    def ray_demand(self) -> dict[str, float]:
        """What every run asks of Ray besides its CPUs, GPUs and memory."""
        return read_demand(self.ray_resources)

    @property
    def worker_variables(self) -> dict[str, str]:
        """The variables that every worker gets which does not inherit them."""
        return read_variables(self.worker_environment)


def load_settings(home: Home) -> Settings:
    """The settings of a home, with `MOSAIC_SETTING_<NAME>` from the environment on top.

    Raises:
        InvalidConfigError: With every field that is wrong and where it came from.
    """
    stored: dict[str, object] = {}
    if home.settings.exists():
        _refuse_untrusted(home.settings)
        try:
            stored = json.loads(home.settings.read_text())
        except ValueError as error:
            raise InvalidConfigError(
                [Problem("", "SET100", f"{home.settings} is not valid JSON: {error}")]
            ) from None
        if not isinstance(stored, dict):
            raise InvalidConfigError(
                [Problem("", "SET100", f"{home.settings} is not an object of settings")]
            )
    given, unknown = _from_environment()
    stored.update(given)
    known = settings_of(Settings)
    problems = [
        Problem("", WRONG_SETTING, f"there is no setting {name}{hint}")
        for name, hint in unknown.items()
    ]
    problems += [_unknown(name, home, given) for name in stored if name not in known]
    values, wrong = fit(Settings, stored)
    problems += [_explained(misfit, home, given) for misfit in wrong]
    if problems:
        raise InvalidConfigError(problems)
    return Settings(**values)


def _from_environment() -> tuple[dict[str, str | None], dict[str, str]]:
    """Settings of the environment, and variables that name none, with the nearest name."""
    given: dict[str, str | None] = {}
    unknown: dict[str, str] = {}
    variables = {_VARIABLE_PREFIX + name.upper(): name for name in settings_of(Settings)}
    for variable, text in os.environ.items():
        if variable in variables:
            # The environment has no other way to say "no value".
            given[variables[variable]] = None if text.lower() == "null" else text
        elif variable.startswith(_VARIABLE_PREFIX):
            unknown[variable] = did_you_mean(variable, variables)
    return given, unknown


def _unknown(name: str, home: Home, given: Mapping[str, str | None]) -> Problem:
    text = f"{_source(name, home, given)} has no setting {name!r}"
    return Problem(f"/{name}", WRONG_SETTING, text + did_you_mean(name, settings_of(Settings)))


def _explained(misfit: Misfit, home: Home, given: Mapping[str, str | None]) -> Problem:
    """One setting that does not fit, and where it came from."""
    where = _source(misfit.name, home, given)
    text = f"{misfit.name} is {misfit.value!r} in {where}: {misfit.why}"
    return Problem(f"/{misfit.name}", WRONG_SETTING, text)


def _source(name: str, home: Home, given: Mapping[str, str | None]) -> str:
    return f"the variable {_VARIABLE_PREFIX}{name.upper()}" if name in given else str(home.settings)


def _refuse_untrusted(path: Path) -> None:
    """Settings decide what workers get in their environment: only their owner may write them."""
    info = path.stat()
    reason = foreign(path, info) or writable_by_others(path, info)
    if reason:
        raise InvalidConfigError([Problem("", "SET102", reason)])


def save_settings(home: Home, settings: Settings) -> None:
    """Write the settings of a home."""
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write_json(home.settings, changed(settings), mode=0o600)
