"""Why a run failed, put together from what it left: reason, command, last words, what changed."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from gym_gui.models.config_diff import flatten
from gym_gui.models.log_folding import TracebackFolder

Document = Mapping[str, object]
# A traceback and what came before it, without scrolling far.
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


def explain(
    *,
    supervisor: Document,
    exited: Document,
    log: str,
    now: Document,
    then: Document,
) -> Failure:
    """Put together what a run left; every part may be empty.

    Args:
        supervisor: What was started.
        exited: How it ended.
        log: The end of its log.
        now: Packages and platform of the run.
        then: Those of the last run that worked.
    """
    argv = supervisor.get("argv")
    command = shlex.join(map(str, argv)) if isinstance(argv, list) else ""
    lines = "\n".join(log.splitlines()[-_TAIL_LINES:])
    return Failure(last_exception(lines), command, lines, _exit_text(exited), _changes(now, then))


def last_exception(lines: str) -> str:
    """The last line of the last traceback; empty when there is none."""
    folder = TracebackFolder()
    entries = [*folder.feed("", lines.splitlines()), *folder.flush()]
    folded = [entry for entry in entries if entry.folded]
    return folded[-1].folded[-1] if folded else ""


def _exit_text(document: Document) -> str:
    parts = []
    for key in ("code", "exit_code", "signal"):
        if document.get(key) is not None:
            parts.append(f"{key.replace('_', ' ')} {document[key]}")
    return ", ".join(parts)


def _changes(run: Document, good: Document) -> tuple[str, ...]:
    now, then = ({key: text[:120] for key, text in flatten(one)} for one in (run, good))
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
