"""`python -m cleanrl_worker.cli`: every mode of the worker, with or without a daemon.

Starts quickly: torch is imported by the training process only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.modes import MODES, mode_of
from cleanrl_worker.resolution import resolve
from mosaic.config.json_types import JsonValue
from mosaic.errors import InvalidConfigError
from mosaic.workers import Problem

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
    parser.add_argument(
        "--track-wandb", action="store_true", default=None, help="log to Weights & Biases too"
    )
    parser.add_argument("--tensorboard-dir", help="relative to the run directory")
    parser.add_argument("--mode", choices=MODES, help="what to do (train)")
    parser.add_argument("--resume", metavar="PATH", help="continue from a checkpoint or a run")
    parser.add_argument("--policy", metavar="PATH", help="evaluate this policy, file or run")
    parser.add_argument("--episodes", type=int, help="how many episodes to evaluate (10)")
    parser.add_argument("--script", metavar="FILE", help="run a multi-phase shell script")
    parser.add_argument("--curriculum", metavar="PRESET", help="a preset, or stages as JSON")
    parser.add_argument("--interactive", action="store_true", help="JSON lines on stdin and stdout")
    parser.add_argument("--run-dir", type=Path, help="where everything goes")
    parser.add_argument("--dry-run", action="store_true", help="check everything, launch nothing")
    parser.add_argument("--gpus", type=int, default=0, help="reserved GPUs, for the dry run")
    parser.add_argument("--emit-summary", action="store_true", help="print the dry run as JSON")
    parser.add_argument("--grpc", action="store_true", help="report to a trainer daemon")
    parser.add_argument(
        "--grpc-target",
        default="127.0.0.1:50055",
        metavar="HOST:PORT",
        help="the daemon's address (127.0.0.1:50055)",
    )
    options = parser.parse_args(words[:split])
    options.script_flags = words[split + 1 :]
    asked = (options.config, options.algo, options.resume, options.policy, options.script)
    if all(item is None for item in asked) and not options.interactive:
        parser.error(
            "give --config FILE or --algo NAME; `mosaic workers --algos cleanrl` lists them"
        )
    return options


def build_config(options: argparse.Namespace) -> CleanRLWorkerConfig:
    """The config file with the command line on top.

    Raises:
        ValueError: With a sentence, when the file or a flag cannot be read.
        InvalidConfigError: With every problem of what was given.
    """
    if options.config is not None:
        config = CleanRLWorkerConfig.from_file(options.config)
    else:
        config = CleanRLWorkerConfig.from_document({})
    given = {
        "mode": _mode(options),
        "cuda": options.cuda,
        "track_wandb": options.track_wandb,
        "tensorboard_dir": options.tensorboard_dir,
        "checkpoint_path": options.resume,
        "policy_path": options.policy,
        "eval_episodes": options.episodes,
        "script_path": options.script,
        "curriculum_schedule": _curriculum(options.curriculum),
    }
    config = config.with_overrides(
        run_id=os.environ.get("MOSAIC_RUN_ID") if options.grpc else None,
        algo=options.algo,
        env_id=options.env_id,
        total_timesteps=options.total_timesteps,
        seed=options.seed,
        extras={name: value for name, value in given.items() if value is not None},
    )
    return _with_script_flags(config, options.script_flags)


def _mode(options: argparse.Namespace) -> str | None:
    if options.mode is not None:
        return str(options.mode)
    flags = {
        "interactive": options.interactive,
        "script": options.script,
        "resume_training": options.resume,
        "policy_eval": options.policy,
    }
    return next((mode for mode, given in flags.items() if given), None)


def _curriculum(text: str | None) -> JsonValue:
    if text is None or not text.lstrip().startswith("["):
        return text
    try:
        stages: JsonValue = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--curriculum is neither a preset nor valid JSON: {error}") from None
    return stages


def _with_script_flags(config: CleanRLWorkerConfig, words: Sequence[str]) -> CleanRLWorkerConfig:
    if not words:
        return config
    from cleanrl_worker.running.parsing import read_flags

    values = read_flags(resolve(config.algo).schema, list(words))
    parameters = {**config.extras.algo_params, **values}
    return config.with_overrides(extras={"algo_params": parameters})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mode that the config asks for; returns the exit status."""
    options = parse(arguments)
    try:
        config = build_config(options)
        run_dir = _run_dir(options, config)
        config = mode_of(config).complete(config, run_dir)
    except InvalidConfigError as error:
        return _refuse(options, error.problems)
    except (ValueError, UsageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_REFUSED
    if options.dry_run:
        return _dry_run(config, run_dir, options.gpus, options.emit_summary)
    return _run(config, run_dir, options.grpc_target if options.grpc else None)


def _run_dir(options: argparse.Namespace, config: CleanRLWorkerConfig) -> Path:
    given = options.run_dir or os.environ.get("MOSAIC_RUN_DIR")
    name = (
        config.run_id
        if config.run_id != "standalone"
        else f"{config.algo or config.mode}-{int(time.time())}"
    )
    return Path(given or Path("runs") / name).absolute()


def _refuse(options: argparse.Namespace, problems: Sequence[Problem]) -> int:
    """Tell what is wrong with a config, in the form that was asked for."""
    if options.dry_run:
        from cleanrl_worker.dry_run import refusal, report

        summary = refusal(problems)
        print(json.dumps(summary, indent=2) if options.emit_summary else report(summary))
        return EXIT_REFUSED
    return _list_problems(problems)


def _list_problems(problems: Sequence[Problem]) -> int:
    for item in problems:
        print(f"error: {item}", file=sys.stderr)
    return EXIT_REFUSED


def _dry_run(config: CleanRLWorkerConfig, run_dir: Path, gpus: int, as_json: bool) -> int:
    from cleanrl_worker.dry_run import examine, report

    summary = examine(config, run_dir, gpus)
    print(json.dumps(summary, indent=2) if as_json else report(summary))
    return 0 if summary["ok"] else EXIT_REFUSED


def _run(config: CleanRLWorkerConfig, run_dir: Path, target: str | None) -> int:
    from cleanrl_worker.validation import find_problems

    # The daemon has already checked its runs. Without a daemon, this is the only check.
    problems = [] if target else list(find_problems(config, run_dir))
    if problems:
        return _list_problems(problems)
    if config.mode == "interactive":
        plan = mode_of(config).plan(config, run_dir)
        if plan.python != sys.executable:
            # The environment is installed in a bundle: become its interpreter, with the same stdin.
            os.execv(plan.python, [plan.python, "-m", plan.target, *plan.words()])
        from cleanrl_worker.programs import interactive

        return interactive.main(plan.words())
    from cleanrl_worker.runtime import CleanRLWorkerRuntime

    return CleanRLWorkerRuntime(config, run_dir, target).run()


if __name__ == "__main__":
    sys.exit(main())
