"""From what the training process says to what the worker says, without ever drowning in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from cleanrl_worker.summaries import Summaries
from mosaic.workers import LifecycleEmitter

# A script of the user's may print a note in every step, and each becomes a line of the run's log.
# Free-form notes beyond this rate are counted, not passed on. Everything else always is.
_MOST_NOTES_A_SECOND = 20
# One line of the bridge: T's own JSON, checked key by key where it is used.
Event: TypeAlias = dict[str, Any]
_PASSED_ON = frozenset({"curriculum_stage", "phase_started"})


class Relay:
    """Passes events on to the lifecycle channel.

    Attributes:
        failure: Why the training process says that it failed; empty when it does not.
        step: The newest step it has told.
        dropped: How many notes were too many.
    """

    def __init__(
        self,
        emitter: LifecycleEmitter,
        report: Callable[[str, str], None],
        note_facts: Callable[[Event], None],
        summaries: Summaries | None = None,
    ) -> None:
        self._emitter = emitter
        self._report = report
        self._note_facts = note_facts
        self._summaries = summaries
        self._window = 0.0
        self._notes = 0
        self._untold = 0
        self.failure = ""
        self.step = 0
        self.dropped = 0

    def handle(self, event: Event) -> None:
        """Pass one event on; a malformed one is counted and left out."""
        kind = event.pop("event")
        # The other end may be a script of the user's that writes to the bridge itself.
        try:
            self._pass_on(kind, event)
        except (KeyError, TypeError, ValueError):
            self._drop()

    def close(self) -> None:
        """Say how much was left out, and send the last summary."""
        self._tell_dropped()
        if self._summaries is not None:
            self._summaries.close()

    def _tell_dropped(self) -> None:
        if self._untold:
            text = f"{self._untold} notes of the training process were left out: too many at once"
            self._emitter.note("note", {"text": text, "dropped": self._untold})
            self._untold = 0

    def _pass_on(self, kind: str, event: Event) -> None:
        match kind:
            case "metrics":
                self.step = int(event["step"])
                self._emitter.metrics(self.step, int(event["total"]), dict(event["values"]))
                if self._summaries is not None and event.get("ended"):
                    self._summaries.note(event["ended"])
            case "doing":
                self._emitter.heartbeat(self.step, doing=str(event["text"]))
            case "alarm":
                self._emitter.alarm(**event)
            case "checkpoint_saved":
                self._emitter.checkpoint_saved(**event)
            case "run_failed":
                self.failure = str(event.get("reason", ""))
            case "paused" | "resumed" | "checkpointed":
                self._report(kind, "")
            case "refused":
                self._report(kind, str(event["reason"]))
            case "facts":
                self._note_facts(event)
            case _ if kind in _PASSED_ON:
                self._emitter.note(kind, event)
            case _:
                self._note(kind, event)

    def _note(self, kind: str, event: Event) -> None:
        now = time.monotonic()
        if now - self._window >= 1.0:
            self._window, self._notes = now, 0
            self._tell_dropped()
        self._notes += 1
        if self._notes > _MOST_NOTES_A_SECOND:
            self._drop()
            return
        self._emitter.note("note", event if kind == "note" else {"kind": kind, **event})

    def _drop(self) -> None:
        self.dropped += 1
        self._untold += 1
