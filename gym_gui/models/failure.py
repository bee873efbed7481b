"""Why a run failed, put together from what it left: reason, command, last words, what changed."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.models.config_diff import flatten
from gym_gui.models.json_files import read_object
from gym_gui.models.log_folding import TracebackFolder

_TAIL_BYTES = 24_000
_TAIL_LINES = 60


@dataclass(frozen=True)
class Failure:
    """Everything the failure page shows.

    Attributes:
        cause: The exception that the log ends with, if it does.
        command: What was started, ready to be pasted.
        last_lines: The end of the logs.
        exit_text: How the process ended.
        changes: Package and platform differences to the last run that worked.
    """

    cause: str
    command: str
    last_lines: str
    exit_text: str
    changes: tuple[str, ...]


def read_failure(run_dir: Path, good_dir: Path | None) -> Failure:
    """Collect it; every part may be missing."""
    supervisor = read_object(run_dir / "supervisor.json")
    argv = supervisor.get("argv")
    command = shlex.join(map(str, argv)) if isinstance(argv, list) else ""
    lines = _tail(run_dir / "logs" / "stderr.log") or _tail(run_dir / "logs" / "stdout.log")
    return Failure(
        last_exception(lines),
        command,
        lines,
        _exit_text(read_object(run_dir / "exit.json")),
        _changes(run_dir, good_dir),
    )


def last_exception(lines: str) -> str:
    """The last line of the last traceback; empty when there is none."""
    folder = TracebackFolder()
    entries = [*folder.feed("", lines.splitlines()), *folder.flush()]
    folded = [entry for entry in entries if entry.folded]
    return folded[-1].folded[-1] if folded else ""


def _exit_text(document: Mapping[str, Any]) -> str:
    parts = []
    for key in ("code", "exit_code", "signal"):
        if document.get(key) is not None:
            parts.append(f"{key.replace('_', ' ')} {document[key]}")
    return ", ".join(parts)


def _changes(run_dir: Path, good_dir: Path | None) -> tuple[str, ...]:
    if good_dir is None:
        return ()
    now, then = (
        {key: text[:120] for key, text in flatten(read_object(folder / "provenance.json"))}
        for folder in (run_dir, good_dir)
    )
    if len(now) < 2 or len(then) < 2:
        return ()
    keys = sorted(set(now) | set(then))
    return tuple(
        f"{key}: {then.get(key) or 'none'} → {now.get(key) or 'none'}"
        for key in keys
        if now.get(key) != then.get(key) and not _always_differs(key)
    )


def _always_differs(key: str) -> bool:
    words = ("diff", "time", "_at", "seed", "run_id", "pid", "argv", "command", "boot")
    return any(word in key for word in words)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
