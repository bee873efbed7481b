"""When the next frame is due: a frame rate, bounded by a share of time."""

_SMOOTHING = 0.2
_OUTLIER = 4.0
# Part of the share kept back for what rendering costs beyond its own time: the pixels it leaves
# in the processor's cache make the steps after it slower.
_HEADROOM = 0.9


class FramePacer:
    """Decides when to render; all times in nanoseconds of one monotonic clock.

    Args:
        interval_ns: Least time from one frame to the next.
        share: Largest part of the time that rendering may take.
    """

    def __init__(self, interval_ns: int, share: float) -> None:
        self.due_at = 0
        self.capped = False
        self.share = share
        self._interval = interval_ns
        self._cost: float | None = None
        self._warm = False

    def begin(self, now: int) -> None:
        """Somebody has started to watch: the first frame is due at once."""
        self.due_at = now
        self.capped = False

    def rendered(self, started: int, finished: int) -> None:
        """Account for one frame and plan the next."""
        self._learn(finished - started)
        needed = 0.0 if self._cost is None else self._cost / (self.share * _HEADROOM)
        self.capped = needed > self._interval
        spacing = max(self._interval, int(needed))
        # Keeping the beat makes the average rate exact although each frame comes a little late.
        late = started - self.due_at
        self.due_at = (started if late > spacing else self.due_at) + spacing
        if self._cost is None:
            self.due_at = finished + self._interval

    def hold(self, until: int) -> None:
        """Plan nothing before a moment."""
        self.due_at = max(self.due_at, until)

    def _learn(self, cost: int) -> None:
        if not self._warm:
            # The first picture loads fonts and drivers; charging it would freeze the view.
            self._warm = True
        elif self._cost is None:
            self._cost = float(cost)
        else:
            # Bounded, because a frame during which the system ran something else is no evidence.
            self._cost += _SMOOTHING * (min(cost, _OUTLIER * self._cost) - self._cost)
