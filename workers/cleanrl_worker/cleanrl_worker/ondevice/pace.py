"""How many updates one compiled call does."""

from __future__ import annotations

# Rows of metrics that a call can return; also the most updates it does.
MOST_UPDATES = 256
# Between two calls commands are obeyed, numbers logged, frames drawn: a person must not feel the
# wait on a CPU, and a GPU must not wait for the host often enough to notice.
_CPU_S, _GPU_S = 0.15, 0.5
# A first call may be slow for other reasons than its length, so growth is limited.
_GROWTH = 4


class Pace:
    """Adapts the number of updates in a call to a span of time.

    The result of training does not depend on it: a call runs the same loop body, only more or less
    often.

    Args:
        cpu: Whether the calls run on a processor, else on a GPU.
        changes_at: The step at which an update begins to take much longer: learning starts. No
            call passes it, and the pace is found again from there.
    """

    def __init__(self, *, cpu: bool, changes_at: int = 0) -> None:
        self._wanted_s = _CPU_S if cpu else _GPU_S
        self._changes_at = changes_at
        self._fitting = 1
        self._before: int | None = None

    def updates(self, step: int, stride: int) -> int:
        """How many updates the next call does, which begins at a step."""
        ahead = -(-(self._changes_at - step) // stride)
        if ahead > 0:
            return min(self._fitting, ahead)
        if self._changes_at:
            # What was measured so far says nothing about what comes now.
            self._changes_at, self._fitting, self._before = 0, 1, None
        return self._fitting

    def took(self, updates: int, seconds: float) -> None:
        """Note that a call was made, and how long the one before it was waited for."""
        # A call is not waited for until the next one is on its way, so that the device always
        # has work. So the time belongs to the call before.
        before, self._before = self._before, updates
        if before is not None:
            fitting = int(before * self._wanted_s / max(seconds, 1e-6))
            self._fitting = max(1, min(fitting, _GROWTH * before, MOST_UPDATES))
