"""How long the calling thread had to wait for a processor."""

_SCHEDULER_STATISTICS = "/proc/thread-self/schedstat"


def waited_ns() -> int:
    """Return the time this thread was ready to run but did not get to, since it began.

    Zero where the system does not tell.
    """
    try:
        with open(_SCHEDULER_STATISTICS, "rb") as statistics:
            return int(statistics.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
