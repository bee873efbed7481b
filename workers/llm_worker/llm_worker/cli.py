"""The worker's command: `python -m llm_worker.cli --config FILE`.

With `--dry-run` it checks the settings, begins the environment, asks the model server what it
honours, and prints the exact first request; nothing is played.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from llm_worker import TRAININGS, WORKER
from llm_worker.errors import LlmError
from llm_worker.learn.names import BC, GRPO
from llm_worker.play.actions import Json
from llm_worker.process import LlmProcess, Start
from llm_worker.run import play, preview
from llm_worker.settings import Settings, from_config
from mosaic.config.model import WorkerRunConfig
from mosaic.config.validation import read_worker_config
from mosaic.errors import InvalidConfigError
from mosaic.workers.lifecycle import LifecycleEmitter

EXIT_FAILED, EXIT_REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        fields = _fields(options.config)
        if fields.get("algo") in TRAININGS:
            return _learn(fields, options)
        settings = from_config(fields)
        if options.dry_run:
            print(preview(settings))
            return 0
    except (LlmError, InvalidConfigError) as error:
        return _refuse(str(error), getattr(error, "hint", ""))
    except (OSError, ValueError) as error:
        return _refuse(f"the configuration {options.config} cannot be read: {error}", "")
    start = Start(WORKER, settings.env_id, settings.episodes)
    return _run(start, options, lambda process: play(process, settings))


def read_settings(path: Path) -> Settings:
    """The settings of a configuration file."""
    return from_config(_fields(path))


def _fields(path: Path | None) -> Json:
    """The worker's part of a configuration; nothing without one, which means the defaults."""
    if path is None:
        return {}
    config = read_worker_config(path.read_bytes(), WorkerRunConfig)
    return dict(config.model_dump(exclude_unset=True))


def _learn(fields: Json, options: argparse.Namespace) -> int:
    # Torch is imported for a training and for nothing else.
    from llm_worker.learn import run as learning
    from llm_worker.learn.settings import BcSettings
    from llm_worker.learn.settings import from_config as read_training

    settings = read_training(fields)
    if options.dry_run:
        print(learning.preview(settings))
        return 0
    algo = BC if isinstance(settings, BcSettings) else GRPO
    start = Start(algo, settings.env_id, settings.updates, live=False)
    return _run(start, options, lambda process: learning.learn(process, settings))


def _run(start: Start, options: argparse.Namespace, work: Callable[[LlmProcess], None]) -> int:
    run_id = os.environ.get("MOSAIC_RUN_ID") or "standalone"
    run_dir = Path(os.environ.get("MOSAIC_RUN_DIR") or options.run_dir)
    process = LlmProcess({}, run_id, run_dir)
    process.begin(start, options.grpc_target if options.grpc else "")
    try:
        with process:
            work(process)
    except LlmError as error:
        print(f"{error}\n{error.hint}".strip(), file=sys.stderr)
        return EXIT_FAILED
    return 0


def _refuse(reason: str, hint: str) -> int:
    run_id = os.environ.get("MOSAIC_RUN_ID")
    if run_id:
        LifecycleEmitter(run_id).run_failed(reason, hint)
    print(f"{reason}\n{hint}".strip(), file=sys.stderr)
    return EXIT_REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llm_worker", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--config", type=Path, help="a job or worker configuration (JSON)")
    parser.add_argument("--grpc", action="store_true", help="report to a daemon")
    parser.add_argument("--grpc-target", default="127.0.0.1:50055", help="the daemon's address")
    parser.add_argument("--run-dir", default=".", help="where files go when there is no daemon")
    parser.add_argument("--dry-run", action="store_true", help="check everything, play nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
