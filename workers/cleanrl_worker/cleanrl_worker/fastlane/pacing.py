"""When the next frame is due: a frame rate, bounded by a share of time."""

from collections import deque

_REMEMBERED = 5
_ENOUGH_TO_JUDGE = 3
_FIRST_SPACING_NS = 1_000_000_000
_FREE_NS = 1_000_000_000
_INSTALMENTS = 150
_UNUSUAL = 8
# Part of the share kept back for what rendering costs beyond its own time: the pixels it leaves
# in the processor's cache make the steps after it slower.
_HEADROOM = 0.9


class FramePacer:
    """Decides when to render; all times in nanoseconds of one monotonic clock.

    Time spent on rendering is earned back before the next frame, with one exception. Some
    environments draw most pictures at once and a few, with parts they have not drawn before, a
    hundred times slower. Waiting for one of those to be earned would freeze the view: the excess
    is paid from a second that every process has for such beginnings, and when that is used up it
    becomes a debt, paid off in small instalments while frames keep coming.

    Args:
        interval_ns: Least time from one frame to the next.
        share: Largest part of the time that rendering may take.
    """

    def __init__(self, interval_ns: int, share: float) -> None:
        self.due_at = 0
        self.capped = False
        self.share = share
        self._interval = interval_ns
        self._costs: deque[int] = deque(maxlen=_REMEMBERED)
        self._debt = float(-_FREE_NS)
        self._warm = False

    def begin(self, now: int) -> None:
        """Somebody has started to watch: the first frame is due at once."""
        self.due_at = now
        self.capped = False

    def rendered(self, started: int, finished: int) -> None:
        """Account for one frame and plan the next."""
        if not self._warm:
            # The first picture loads fonts and drivers and says nothing about the next.
            self._warm = True
            self._debt += finished - started
            self.due_at = finished + self._interval
            return
        spacing = self._spacing(finished - started)
        self.capped = spacing > self._interval
        # Keeping the beat makes the average rate exact although each frame comes a little late.
        on_time = started - self.due_at <= spacing
        self.due_at = (self.due_at if on_time else started) + spacing

    def hold(self, until: int) -> None:
        """Plan nothing before a moment."""
        self.due_at = max(self.due_at, until)

    def _spacing(self, cost: int) -> int:
        self._costs.append(cost)
        usual_costs = [past for past in self._costs if past <= _UNUSUAL * min(self._costs)]
        usual = sum(usual_costs) / len(usual_costs)
        owed = self._debt + cost
        instalment = min(max(owed - usual, 0.0), max(usual, owed / _INSTALMENTS))
        earned_per_ns = self.share * _HEADROOM
        spacing = max(self._interval, int((usual + instalment) / earned_per_ns))
        if len(self._costs) < _ENOUGH_TO_JUDGE:
            spacing = min(spacing, max(self._interval, _FIRST_SPACING_NS))
        # What is left of the free second is not added to.
        self._debt = max(owed - spacing * earned_per_ns, min(self._debt, 0.0))
        return spacing
