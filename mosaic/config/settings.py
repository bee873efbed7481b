"""Settings of a home: one schema, one file, overridable from the environment."""

import json
import os
import shlex
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mosaic.config.paths import Home
from mosaic.errors import InvalidConfigError, Problem
from mosaic.system import atomic
from mosaic.system.owner import foreign, writable_by_others

_VARIABLE_PREFIX = "MOSAIC_SETTING_"


class Settings(BaseModel):
    """What a user may change about the daemon and the workers it starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    port: Annotated[int, Field(ge=0, le=65535, title="Preferred port")] = 50055
    cpu_slots: Annotated[
        int | None, Field(ge=1, title="CPU slots", description="null: one per CPU")
    ] = None
    grace_s: Annotated[
        float, Field(gt=0, title="Grace period", description="from SIGTERM to SIGKILL")
    ] = 30.0
    handshake_timeout_s: Annotated[float, Field(gt=0, title="Handshake deadline")] = 60.0
    check_timeout_s: Annotated[
        float,
        Field(gt=0, title="Check deadline", description="for a worker to check a configuration"),
    ] = 60.0
    stall_after_s: Annotated[
        float,
        Field(gt=0, title="Stalled after", description="seconds without a heartbeat or a step"),
    ] = 90.0
    retry_lost: Annotated[
        bool, Field(title="Retry lost runs", description="submit lost runs again automatically")
    ] = False
    gpu_idle_memory_mb: Annotated[
        int | None,
        Field(ge=0, title="GPU must be idle", description="start only below this memory use"),
    ] = None
    warm_start: Annotated[
        bool, Field(title="Warm start", description="fork runs from a process with torch loaded")
    ] = True
    min_free_disk_mb: Annotated[int, Field(ge=0, title="Disk space to keep free")] = 200
    trash_days: Annotated[float, Field(ge=0, title="Days in the trash")] = 7.0
    log_cap_mb: Annotated[int, Field(ge=1, title="Largest log of a run")] = 5120
    worker_environment: Annotated[
        str,
        Field(
            title="Variables of workers",
            description="NAME=VALUE, several separated by spaces; quote a value with spaces",
        ),
    ] = ""

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
    for name in Settings.model_fields:
        text = os.environ.get(_VARIABLE_PREFIX + name.upper())
        if text is not None:
            stored[name] = None if text.lower() == "null" else text
    try:
        return Settings.model_validate(stored)
    except ValidationError as error:
        raise InvalidConfigError(
            [
                Problem(
                    "/" + "/".join(map(str, detail["loc"])),
                    "SET101",
                    f"{detail['msg']}, but {detail['input']!r} was given in {home.settings}",
                )
                for detail in error.errors()
            ]
        ) from None


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
