"""The training process: makes a script importable and runs it as a program.

`python -m cleanrl_worker.launcher MODULE_OR_FILE [flags of the script]`. Bundled scripts talk over
the bridge by themselves; for any other script its summary writer is listened to.
"""

from __future__ import annotations

import itertools
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from cleanrl_worker.stack import answer_when_asked
from mosaic.runs.disk import forgive_full_disks

OWN_PREFIXES = ("cleanrl_worker.cleanrl.", "cleanrl_worker.programs.")


def run(target: str, arguments: Sequence[str]) -> None:
    """Run a script in this process as `__main__`."""
    sys.argv = [target, *arguments]
    forgive_full_disks()
    answer_when_asked()
    _show_frames()
    if target.startswith(OWN_PREFIXES):
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    from cleanrl_worker.foreign_scripts import listen_to_summary_writers, spare_wandb, wait_for_go

    signal.signal(signal.SIGTERM, _leave)
    bridge = wait_for_go()
    listen_to_summary_writers(bridge, _total_timesteps(arguments))
    spare_wandb(bridge)
    if target.endswith(".py"):
        path = Path(target)
        sys.path.insert(0, str(path.parent))
        sys.path.insert(0, str(path.parent.parent))
        runpy.run_path(str(path), run_name="__main__")
    else:
        runpy.run_module(target, run_name="__main__", alter_sys=True)


def _show_frames() -> None:
    if os.environ.get("CLEANRL_FASTLANE_MODE", "off") != "off":
        from cleanrl_worker.fastlane import install

        install()


def _total_timesteps(arguments: Sequence[str]) -> int:
    for flag, value in itertools.pairwise(arguments):
        if flag == "--total-timesteps" and value.isdigit():
            return int(value)
    return 0


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Unwind instead of dying, so that the script's writers are flushed."""
    sys.exit(128 + number)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
