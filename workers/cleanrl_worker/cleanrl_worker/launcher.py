"""The training process: makes a script importable and runs it as a program.

`python -m cleanrl_worker.launcher MODULE_OR_FILE [flags of the script]`. Bundled scripts talk over
the bridge by themselves; for any other script its summary writer is listened to.
"""

from __future__ import annotations

import importlib.util
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
        # A warm process may have imported it; as a program it has to run from its first line.
        sys.modules.pop(target, None)
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    _run_foreign(target, arguments)


def _run_foreign(target: str, arguments: Sequence[str]) -> None:
    """Run a script that knows nothing of us; its failures are reported like our own."""
    from cleanrl_worker import foreign_scripts, older_gym, older_gymnasium, older_libraries

    signal.signal(signal.SIGTERM, _leave)
    bridge = foreign_scripts.wait_for_go()
    foreign_scripts.listen_to_summary_writers(bridge, _total_timesteps(arguments))
    foreign_scripts.spare_wandb(bridge)
    foreign_scripts.track_offline(arguments)
    path = Path(target) if target.endswith(".py") else None
    source = path or _source_of(target)
    older_gymnasium.support(source)
    older_gym.provide(source)
    older_libraries.support()
    try:
        if path is None:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            # As when it is started by hand, and from its checkout, where its own helpers are.
            sys.path.insert(0, str(path.parent))
            sys.path.insert(0, str(path.parent.parent))
            runpy.run_path(str(path), run_name="__main__")
    except Exception as error:
        text = " ".join(str(error).split())
        bridge.send("run_failed", reason=f"{type(error).__name__}: {text}"[:500])
        raise


def _source_of(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec and spec.origin else None


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
