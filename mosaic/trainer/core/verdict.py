"""How a run ended, and why: the evidence of its processes against what its worker said. Pure."""

import signal

from mosaic.records.run import Outcome
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import ProcessEnded


def verdict(run: Run, end: ProcessEnded) -> tuple[Outcome, str]:
    """How the run ended. Evidence of the process outranks what the worker said."""
    # Before `stopping`: a run that finished while its cancellation was on the way has finished.
    finished = end.code == 0 and run.completion_seen
    if finished and run.state is not State.FAULT:
        return _completed(run)
    if run.stopping:
        return Outcome(run.stopping), run.stop_reason
    if run.state is State.FAULT and not run.completion_seen:
        said = run.failure_reported
        return Outcome.FAILED, f"{run.reason}; the worker said: {said}" if said else run.reason
    # The supervisor left no exit record, so the worker's last line is all there is.
    if end.code is None and end.signal is None:
        if run.completion_seen:
            return Outcome.COMPLETED, "the completion record was seen, the exit code was not"
        return Outcome.LOST, end.detail or "its processes vanished without an exit record"
    return Outcome.FAILED, _failure_reason(run, end)


def own_word(run: Run) -> tuple[Outcome, str]:
    """How the run ended by its worker's word alone, once that has said so."""
    if run.failure_reported:
        return Outcome.FAILED, run.failure_reported
    return _completed(run)


def _completed(run: Run) -> tuple[Outcome, str]:
    return (Outcome.BUDGET, run.budget_spent) if run.budget_spent else (Outcome.COMPLETED, "")


def _failure_reason(run: Run, end: ProcessEnded) -> str:
    # The kernel's evidence first: a worker that is killed for its memory cannot say so.
    if end.memory:
        return f"ran out of memory ({_describe_exit(end)})"
    if end.detail:
        return end.detail
    if end.code == 0:
        # Completed and still a failure: it faulted, for example by leaving processes behind.
        if run.completion_seen:
            return run.reason
        return "no completion record: the worker exited 0 without run_completed"
    if run.failure_reported:
        return run.failure_reported
    after = " after run_completed" if run.completion_seen else ""
    return f"{_describe_exit(end)}{after}"


def _describe_exit(end: ProcessEnded) -> str:
    """How a process ended, in words."""
    if end.signal is not None:
        try:
            name = f" ({signal.Signals(end.signal).name})"
        except ValueError:
            name = ""
        return f"killed by signal {end.signal}{name}"
    return f"exit code {end.code}"
