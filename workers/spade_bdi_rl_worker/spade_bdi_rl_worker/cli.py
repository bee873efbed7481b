"""The worker's command line: `python -m spade_bdi_rl_worker.cli`.

Settings come from `--config` (the full job or the worker's own fields) and from flags, which win.
Without `--grpc` it runs alone, with no daemon, and keeps everything under `--run-dir`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path

from mosaic.config.model import WorkerRunConfig
from mosaic.config.validation import read_worker_config
from mosaic.errors import InvalidConfigError
from mosaic.workers.lifecycle import LifecycleEmitter
from spade_bdi_rl_worker.errors import WorkerError
from spade_bdi_rl_worker.process import SpadeProcess
from spade_bdi_rl_worker.settings import Settings, from_config

EXIT_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        config = _read(options.config) if options.config else {}
        settings = from_config(config, _overrides(options))
        if options.dry_run:
            print(json.dumps(dry_run(settings), indent=2))
            return 0
    except WorkerError as error:
        return _refuse(error)
    except InvalidConfigError as error:
        return _refuse(WorkerError(str(error)))
    except (OSError, ValueError) as error:
        return _refuse(WorkerError(f"the config {options.config} cannot be read: {error}"))
    return _run(settings, config, options)


def _read(path: Path) -> dict[str, object]:
    """The worker's own fields, checked by the platform's model and with its names."""
    fields = read_worker_config(path.read_bytes(), WorkerRunConfig)
    return fields.model_dump(exclude_unset=True)


def dry_run(settings: Settings) -> dict[str, object]:
    """Check everything a run needs and launch nothing.

    Raises:
        WorkerError: The environment, a plan or a checkpoint is not as it should be.
    """
    from spade_bdi_rl_worker import checkpoints
    from spade_bdi_rl_worker.headless_training import make_learner
    from spade_bdi_rl_worker.worlds import World

    world = World(settings.env_id, settings.seed, settings.max_steps, settings.env_kwargs)
    world.reset(0)
    world.close()
    report: dict[str, object] = {"settings": {**asdict(settings), "password": "***"}, "ok": True}
    report["actions"] = world.actions
    if settings.headless:
        report["lanes"] = make_learner(settings).lanes
    else:
        report["plans"] = [str(path) for path in check_plans(settings)]
    if settings.checkpoint_path:
        checkpoints.read(checkpoints.find_full(settings.checkpoint_path, Path()), "full")
    if settings.policy_path:
        checkpoints.read(checkpoints.find_policy(settings.policy_path), "policy")
    return report


def check_plans(settings: Settings) -> list[Path]:
    """Read the plans of a run before anything starts.

    Raises:
        PlanError: With line and column of each mistake.
    """
    from spade_bdi_rl_worker.plans import check_plan, find_plan

    paths = []
    for _, given, must_have in settings.plans:
        paths.append(find_plan(given))
        check_plan(paths[-1], must_have)
    return paths


def _run(settings: Settings, config: dict[str, object], options: argparse.Namespace) -> int:
    run_id = os.environ.get("MOSAIC_RUN_ID") or str(config.get("run_id") or "standalone")
    folder = os.environ.get("MOSAIC_RUN_DIR") or options.run_dir or _own_folder(settings)
    run_dir = Path(folder)
    run_dir.mkdir(parents=True, exist_ok=True)
    process = SpadeProcess(config, run_id, run_dir)
    process.begin(settings, options.grpc_target if options.grpc else "")
    try:
        with process:
            _work(process, settings)
    except WorkerError as error:
        print(f"{error}\n{error.hint}".strip(), file=sys.stderr)
        return 1
    return 0


def _work(process: SpadeProcess, settings: Settings) -> None:
    if settings.mode == "policy_eval":
        from spade_bdi_rl_worker.evaluation import evaluate

        evaluate(process, settings)
    elif settings.headless:
        from spade_bdi_rl_worker import headless_training

        headless_training.train(process, settings)
    else:
        # Before SPADE is loaded, which takes seconds: a mistake in a plan is reported at once.
        check_plans(settings)
        from spade_bdi_rl_worker import bdi_training

        bdi_training.train(process, settings)


def _own_folder(settings: Settings) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"runs/{settings.env_id}__spade_bdi__{settings.seed}__{stamp}"


def _refuse(error: WorkerError) -> int:
    run_id = os.environ.get("MOSAIC_RUN_ID")
    if run_id:
        LifecycleEmitter(run_id).run_failed(str(error), error.hint)
    print(f"{error}\n{error.hint}".strip(), file=sys.stderr)
    return EXIT_REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spade_bdi_rl_worker", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--config", type=Path, help="a job or worker config (JSON)")
    parser.add_argument("--grpc", action="store_true", help="report to a daemon")
    parser.add_argument("--grpc-target", default="127.0.0.1:50055", help="the daemon's address")
    parser.add_argument("--run-dir", help="where the run's files go when there is no daemon")
    parser.add_argument("--dry-run", action="store_true", help="check everything, start nothing")
    for item in fields(Settings):
        flag = f"--{item.name.replace('_', '-')}"
        text = item.metadata["help"]
        if item.default is MISSING:
            parser.add_argument(flag, type=json.loads, help=f"{text} (JSON)")
        elif isinstance(item.default, bool):
            parser.add_argument(
                flag, action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            parser.add_argument(
                flag, type=type(item.default), help=f"{text} (default: {item.default})"
            )
    return parser


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    given = {item.name: getattr(options, item.name) for item in fields(Settings)}
    return {name: value for name, value in given.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
