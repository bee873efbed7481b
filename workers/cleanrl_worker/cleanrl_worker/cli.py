"""`python -m cleanrl_worker.cli`: every mode of the worker, with or without a daemon.

Starts quickly: torch is imported by the training process only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.resolution import resolve

EXIT_REFUSED = 2


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; what follows `--` belongs to the script."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        prog="python -m cleanrl_worker.cli",
        description="Train, resume, evaluate or check a CleanRL-style algorithm.",
        epilog="Anything after -- is passed to the script: -- --num-envs 8",
    )
    parser.add_argument("--config", type=Path, help="a JSON config, nested or flat")
    parser.add_argument("--algo", help="an algorithm's name, or cleanrl:NAME for upstream's own")
    parser.add_argument("--env-id", help="the environment")
    parser.add_argument("--total-timesteps", type=int, help="how long to train")
    parser.add_argument("--seed", type=int, help="random seed (1)")
    parser.add_argument("--cuda", action="store_true", default=None, help="train on a GPU")
    parser.add_argument("--track-wandb", action="store_true", default=None)
    parser.add_argument("--tensorboard-dir", help="relative to the run directory")
    parser.add_argument("--run-dir", type=Path, help="where everything goes")
    parser.add_argument("--dry-run", action="store_true", help="check everything, launch nothing")
    parser.add_argument("--emit-summary", action="store_true", help="print the dry run as JSON")
    parser.add_argument("--grpc", action="store_true", help="report to a trainer daemon")
    parser.add_argument("--grpc-target", default="127.0.0.1:50055", metavar="HOST:PORT")
    options = parser.parse_args(words[:split])
    options.script_flags = words[split + 1 :]
    if options.config is None and options.algo is None:
        parser.error(
            "give --config FILE or --algo NAME; `mosaic workers --algos cleanrl` lists them"
        )
    return options


def build_config(options: argparse.Namespace) -> CleanRLWorkerConfig:
    """The config file with the command line on top.

    Raises:
        ValueError: With a sentence, when either is wrong.
    """
    if options.config is not None:
        config = CleanRLWorkerConfig.from_file(options.config)
    else:
        config = CleanRLWorkerConfig.from_document({})
    extras: dict[str, Any] = {}
    given = {
        "cuda": options.cuda,
        "track_wandb": options.track_wandb,
        "tensorboard_dir": options.tensorboard_dir,
    }
    extras.update({name: value for name, value in given.items() if value is not None})
    config = config.with_overrides(
        algo=options.algo,
        env_id=options.env_id,
        total_timesteps=options.total_timesteps,
        seed=options.seed,
        extras=extras,
    )
    return _with_script_flags(config, options.script_flags)


def _with_script_flags(config: CleanRLWorkerConfig, words: Sequence[str]) -> CleanRLWorkerConfig:
    if words:
        from cleanrl_worker.kit.parsing import read_flags

        values = read_flags(resolve(config.algo).schema, list(words))
        parameters = {**(config.extras.get("algo_params") or {}), **values}
        config = config.with_overrides(extras={"algo_params": parameters})
    if not config.env_id and config.mode == "train":
        default = resolve(config.algo).schema.algorithm.get("default_env")
        config = config.with_overrides(env_id=default)
    return config


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mode that the config asks for; returns the exit status."""
    options = parse(arguments)
    try:
        config = build_config(options)
    except (ValueError, UsageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_REFUSED
    given = options.run_dir or os.environ.get("MOSAIC_RUN_DIR") or Path("runs") / config.run_id
    run_dir = Path(given).absolute()
    if options.dry_run:
        return _dry_run(config, run_dir, options.emit_summary)
    return _run(config, run_dir, options.grpc_target if options.grpc else None)


def _dry_run(config: CleanRLWorkerConfig, run_dir: Path, as_json: bool) -> int:
    from cleanrl_worker.dry_run import examine, report

    summary = examine(config, run_dir)
    print(json.dumps(summary, indent=2) if as_json else report(summary))
    return 0 if summary["ok"] else EXIT_REFUSED


def _run(config: CleanRLWorkerConfig, run_dir: Path, target: str | None) -> int:
    from cleanrl_worker.runtime import CleanRLWorkerRuntime
    from cleanrl_worker.validation import find_problems

    # The daemon has validated what it submits; alone, nobody else would.
    problems = [] if target else list(find_problems(config))
    if problems:
        for item in problems:
            print(f"error: {item}", file=sys.stderr)
        return EXIT_REFUSED
    return CleanRLWorkerRuntime(config, run_dir, target).run()


if __name__ == "__main__":
    sys.exit(main())
