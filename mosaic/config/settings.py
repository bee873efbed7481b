"""Settings of a home: one schema, one file, overridable from the environment."""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from mosaic.config import sites
from mosaic.config.paths import Home
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidConfigError, Problem
from mosaic.system import atomic
from mosaic.system.owner import foreign, writable_by_others

_VARIABLE_PREFIX = "MOSAIC_SETTING_"
WRONG_SETTING = "SET101"


class Settings(BaseModel):
    """What a user may change about the daemon and the workers it starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    site: Annotated[str, Field(title="Where runs go", description=sites.KNOWN)] = sites.LOCAL
    port: Annotated[int, Field(ge=0, le=65535, title="Preferred port")] = 50055
    auto_start: Annotated[
        bool, Field(title="Start when needed", description="`mosaic train` starts the daemon")
    ] = False
    cpu_slots: Annotated[
        int | None, Field(ge=1, title="CPU slots", description="none: one per CPU")
    ] = None
    grace_s: Annotated[
        float, Field(gt=0, title="Grace period", description="seconds from SIGTERM to SIGKILL")
    ] = 30.0
    # Twice what a worker waits for an absent daemon: one that is only slow is not given up.
    handshake_timeout_s: Annotated[
        float, Field(gt=0, title="Handshake deadline", description="seconds for a worker to report")
    ] = 60.0
    check_timeout_s: Annotated[
        float,
        Field(
            gt=0,
            title="Check deadline",
            description="seconds to check a configuration",
        ),
    ] = 60.0
    # Nine heartbeats. A worker that is only slow has sent one by then.
    stall_after_s: Annotated[
        float,
        Field(gt=0, title="Stalled after", description="seconds without a heartbeat or a step"),
    ] = 90.0
    # Some minutes: a controller that is restarted is silent for that long, and may have forgotten.
    lost_after_s: Annotated[
        float,
        Field(
            gt=0,
            title="Lost after",
            description="seconds that a run on a cluster is silent and its job is known to be over",
        ),
    ] = 120.0
    site_poll_s: Annotated[
        float, Field(gt=0, title="Ask the cluster every", description="seconds")
    ] = 5.0
    slurm_account: Annotated[
        str, Field(title="SLURM account", description="empty: the user's default")
    ] = ""
    slurm_options: Annotated[
        str,
        Field(
            title="SLURM options",
            description="more options of sbatch, such as --qos=long --constraint=a100",
        ),
    ] = ""
    retry_lost: Annotated[
        bool, Field(title="Retry lost runs", description="submit lost runs again automatically")
    ] = False
    gpu_idle_memory_mb: Annotated[
        int | None,
        Field(ge=0, title="GPU must be idle", description="at most this much memory in use, MB"),
    ] = None
    warm_start: Annotated[
        bool, Field(title="Warm start", description="fork runs from a process with torch loaded")
    ] = True
    min_free_disk_mb: Annotated[
        int, Field(ge=0, title="Disk space to keep free", description="MB")
    ] = 200
    trash_days: Annotated[float, Field(ge=0, title="Days in the trash")] = 7.0
    log_cap_mb: Annotated[int, Field(ge=1, title="Largest log of a run", description="MB")] = 5120
    worker_environment: Annotated[
        str,
        Field(
            title="Variables of workers",
            description="NAME=VALUE, several separated by spaces; quote a value with spaces",
        ),
    ] = ""

    @field_validator("site")
    @classmethod
    def _known_site(cls, text: str) -> str:
        return sites.check(text)

    @field_validator("slurm_options")
    @classmethod
    def _options_only(cls, text: str) -> str:
        for word in shlex.split(text):
            if not word.startswith("-"):
                raise ValueError(f"{word!r} is not an option; write --name=value")
        return text

    @field_validator("worker_environment")
    @classmethod
    def _names_and_values(cls, text: str) -> str:
        read_variables(text)
        return text

    @property
    def worker_variables(self) -> dict[str, str]:
        """The variables that every worker gets which does not inherit them."""
        return read_variables(self.worker_environment)


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


def load_settings(home: Home) -> Settings:
    """The settings of a home, with `MOSAIC_SETTING_<NAME>` from the environment on top.

    Raises:
        InvalidConfigError: With every field that is wrong and where it came from.
    """
    stored: dict[str, Any] = {}
    if home.settings.exists():
        _refuse_untrusted(home.settings)
        try:
            stored = json.loads(home.settings.read_text())
        except ValueError as error:
            raise InvalidConfigError(
                [Problem("", "SET100", f"{home.settings} is not valid JSON: {error}")]
            ) from None
    given, unknown = _from_environment()
    stored.update(given)
    problems = [
        Problem("", WRONG_SETTING, f"there is no setting {name}{hint}")
        for name, hint in unknown.items()
    ]
    try:
        settings = Settings.model_validate(stored)
    except ValidationError as error:
        problems += [_explained(detail, home, given) for detail in error.errors()]
        raise InvalidConfigError(problems) from None
    if problems:
        raise InvalidConfigError(problems)
    return settings


def _from_environment() -> tuple[dict[str, str | None], dict[str, str]]:
    """Settings of the environment, and variables that name none, with the nearest name."""
    given: dict[str, str | None] = {}
    unknown: dict[str, str] = {}
    variables = {_VARIABLE_PREFIX + name.upper(): name for name in Settings.model_fields}
    for variable, text in os.environ.items():
        if variable in variables:
            # The environment has no other way to say "no value".
            given[variables[variable]] = None if text.lower() == "null" else text
        elif variable.startswith(_VARIABLE_PREFIX):
            unknown[variable] = did_you_mean(variable, variables)
    return given, unknown


def _explained(detail: ErrorDetails, home: Home, given: Mapping[str, str | None]) -> Problem:
    """One setting that does not fit, and where it came from."""
    name = str(detail["loc"][0]) if detail["loc"] else ""
    variable = _VARIABLE_PREFIX + name.upper()
    where = f"the variable {variable}" if name in given else str(home.settings)
    if detail["type"] == "extra_forbidden":
        hint = did_you_mean(name, Settings.model_fields)
        return Problem(f"/{name}", WRONG_SETTING, f"{where} has no setting {name!r}{hint}")
    wrong = detail["msg"].removeprefix("Value error, ")
    text = f"{name} is {detail['input']!r} in {where}: {wrong[:1].lower()}{wrong[1:]}"
    return Problem(f"/{name}", WRONG_SETTING, text)


def _refuse_untrusted(path: Path) -> None:
    """Settings decide what workers get in their environment: only their owner may write them."""
    info = path.stat()
    reason = foreign(path, info) or writable_by_others(path, info)
    if reason:
        raise InvalidConfigError([Problem("", "SET102", reason)])


def save_settings(home: Home, settings: Settings) -> None:
    """Write the settings of a home."""
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write_json(home.settings, settings.model_dump(exclude_defaults=True), mode=0o600)
