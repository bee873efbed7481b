"""`CleanRLWorkerConfig`: what one run is asked to do, as this worker reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.config.model import Mode, WorkerRunConfig
from mosaic.config.validation import read_worker_config
from mosaic.workers import Problem

ALONE = "standalone"


class CleanRLWorkerConfig(WorkerRunConfig):
    """What one run is asked to do.

    The fields are the platform's own (`mosaic.config.model`), so the daemon's check and the
    worker's process read one and the same model. Extras that the platform does not know are
    arguments of the script; see `parameters`.
    """

    run_id: str = ALONE

    @classmethod
    def of(cls, fields: WorkerRunConfig) -> CleanRLWorkerConfig:
        """The worker's view of fields that have been checked already; nothing is read again."""
        given = {name: getattr(fields, name) for name in fields.model_fields_set}
        return cls.model_construct(fields.model_fields_set, **given)

    @classmethod
    def from_document(cls, document: str | bytes | Mapping[str, object]) -> CleanRLWorkerConfig:
        """Read the nested (whole job) or the flat (worker's own fields) shape.

        Raises:
            InvalidConfigError: With every problem.
        """
        return read_worker_config(document, cls)

    @classmethod
    def from_file(cls, path: Path) -> CleanRLWorkerConfig:
        """Read a config file.

        Raises:
            ValueError: With a sentence, when the file cannot be read.
            InvalidConfigError: With every problem of what is in it.
        """
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_document(text)

    def with_overrides(
        self, extras: Mapping[str, JsonValue] | None = None, **changes: JsonValue
    ) -> CleanRLWorkerConfig:
        """A copy with every given change that is not None; `extras` are merged.

        Raises:
            InvalidConfigError: A change does not fit.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        if extras:
            given["extras"] = {**self.extras.model_dump(exclude_unset=True), **extras}
        if not given:
            return self
        return self.from_document({**self.model_dump(exclude_unset=True), **given})

    @property
    def mode(self) -> Mode:
        """What to do; the module of that name in `modes` does it."""
        return self.extras.mode

    @property
    def cuda(self) -> bool:
        """Whether a GPU is asked for."""
        return self.extras.cuda


def problem(field_name: str, code: str, message: str) -> Problem:
    """What is wrong with one of the worker's own fields, with a pointer to it."""
    return Problem(f"/metadata/worker/config/{field_name}", code, message)
