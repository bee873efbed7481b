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
    """

    def __init__(self, *, cpu: bool) -> None:
        self.updates = 1
        self._wanted_s = _CPU_S if cpu else _GPU_S

    def took(self, updates: int, seconds: float) -> None:
        """Note how long a call took."""
        fitting = int(updates * self._wanted_s / max(seconds, 1e-6))
        self.updates = max(1, min(fitting, _GROWTH * updates, MOST_UPDATES))
