"""Runs an algorithm file as a program."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import TrainingError, UsageError
from cleanrl_worker.kit.run import Run
from cleanrl_worker.running.bridge import Bridge
from cleanrl_worker.running.handover import accept
from cleanrl_worker.running.parsing import from_values, parse
from cleanrl_worker.running.schema import read_schema

ArgsType = TypeVar("ArgsType", bound=RunArgs)


def main(args_type: type[ArgsType], train: Callable[[ArgsType, Run], None]) -> None:
    """Take the arguments, train, and exit with a status that says how it went.

    The worker hands the arguments over as values; a person gives CleanRL's flags.

    Exit status: 0 trained to the end (or to `--stop-at`), 1 failed, 2 refused before
    training, 128 + n stopped by signal n after saving a checkpoint (143 when the worker
    asked for it).

    Args:
        args_type: The file's `Args`.
        train: The file's training function.
    """
    run: Run | None = None
    try:
        schema = read_schema(Path(train.__code__.co_filename))
        values = accept()
        args: ArgsType
        if values is None:
            args = parse(args_type, schema, sys.argv[1:])
        else:
            args = from_values(args_type, schema, values)
        run = Run(args, schema)
        train(args, run)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        _tell(run, str(error))
        sys.exit(2)
    except TrainingError as error:
        _close(run)
        print(f"error: {error}", file=sys.stderr, flush=True)
        _tell(run, str(error))
        sys.exit(1)
    except Exception as error:
        _close(run)
        traceback.print_exc()
        _tell(run, f"{type(error).__name__}: {error}")
        sys.exit(1)


def _tell(run: Run | None, reason: str) -> None:
    bridge = Bridge() if run is None else run.bridge
    bridge.send("run_failed", reason=reason)


def _close(run: Run | None) -> None:
    if run is not None:
        try:
            run.close()
        except Exception as error:
            print(f"the logs could not be closed: {error}", file=sys.stderr)
