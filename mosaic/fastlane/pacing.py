"""When the next frame is due: a frame rate, bounded by a share of time."""

from collections import deque

# Few frames: a scene that becomes cheaper to draw should be noticed within seconds.
_REMEMBERED = 5
_ENOUGH_TO_JUDGE = 3
# Until enough frames are known, one dear picture must not hide the view for a minute.
_FIRST_SPACING_NS = 1_000_000_000
# Every process may spend this much on beginnings: fonts, shaders, parts drawn for the first time.
_FREE_NS = 1_000_000_000
# A debt is paid with at least this part of it a frame: gone after some seconds of watching.
_INSTALMENTS = 150
# So many times the cheapest frame is a frame that drew something for the first time.
_UNUSUAL = 8
# Part of the share kept back for what rendering costs beyond its own time: the pixels it leaves
# in the processor's cache make the steps after it slower.
_HEADROOM = 0.9
_SCHEDULER_STATISTICS = "/proc/thread-self/schedstat"


class FramePacer:
    """Decides when to render; all times in nanoseconds of one monotonic clock.

    Time spent on rendering is earned back before the next frame, with one exception. Some
    environments draw most pictures at once and a few, with parts they have not drawn before, a
    hundred times slower. Waiting for one of those to be earned would freeze the view: the excess
    is paid from a second that every process has for such beginnings, and when that is used up it
    becomes a debt, paid off in small instalments while frames keep coming.

    Time in which the process waited for a processor earns nothing and costs nothing: on a busy
    machine, too, rendering takes its share of what the process gets done.

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
        self._earned_at = 0
        self._waited_then = 0
        self._planned_at = 0

    def begin(self, now: int) -> None:
        """A viewer has come: the first frame is due at once."""
        self.due_at = now
        self._earned_at = 0
        self.capped = False

    def earned(self, now: int, waited: int) -> bool:
        """Tell whether a frame that is due has also been earned; if not, it is due later.

        Args:
            now: The time.
            waited: How long the process has had to wait for a processor, since it began.
        """
        lost = waited - self._waited_then
        missing = self._earned_at + lost - now
        if missing <= 0:
            return True
        # At the rate at which the process has been getting ahead since the last frame.
        elapsed = now - self._planned_at
        self.due_at = now + int(missing * elapsed / max(elapsed - lost, elapsed // 20, 1))
        self.capped = True
        return False

    def rendered(
        self, started: int, finished: int, waited_before: int = 0, waited_after: int = 0
    ) -> None:
        """Account for one frame and plan the next.

        Args:
            started: When rendering began.
            finished: When it ended.
            waited_before: How long the process had had to wait for a processor by then.
            waited_after: The same at the end.
        """
        cost = max(0, finished - started - (waited_after - waited_before))
        if not self._warm:
            # The first picture loads fonts and drivers and says nothing about the next.
            self._warm = True
            self._debt += cost
            self.due_at = finished + self._interval
            return
        needed = self._needed(cost)
        spacing = max(self._interval, needed)
        self.capped = needed > self._interval
        # Keeping the beat makes the average rate exact although each frame comes a little late.
        begin = self.due_at if started - self.due_at <= spacing else started
        self.due_at = begin + spacing
        self._earned_at = begin + needed
        self._waited_then, self._planned_at = waited_after, finished

    def hold(self, until: int) -> None:
        """Plan nothing before a moment."""
        self.due_at = max(self.due_at, until)

    def _needed(self, cost: int) -> int:
        """Return how long it takes to earn what is to be paid before the next frame."""
        self._costs.append(cost)
        usual_costs = [past for past in self._costs if past <= _UNUSUAL * min(self._costs)]
        usual = sum(usual_costs) / len(usual_costs)
        owed = self._debt + cost
        instalment = min(max(owed - usual, 0.0), max(usual, owed / _INSTALMENTS))
        earned_per_ns = self.share * _HEADROOM
        needed = int((usual + instalment) / earned_per_ns)
        if len(self._costs) < _ENOUGH_TO_JUDGE:
            needed = min(needed, max(self._interval, _FIRST_SPACING_NS))
        # What is left of the free second is not added to.
        paid = max(self._interval, needed) * earned_per_ns
        self._debt = max(owed - paid, min(self._debt, 0.0))
        return needed


def waited_ns() -> int:
    """How long this thread was ready to run but had no processor, since it began.

    Zero where the system does not say.
    """
    try:
        with open(_SCHEDULER_STATISTICS, "rb") as statistics:
            return int(statistics.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
