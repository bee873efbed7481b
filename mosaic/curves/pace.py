"""Which values of a long curve are stored: the first one at or after each mark.

Marks are multiples of a number of steps. Time plays no part: two runs with the same configuration
and seed store the same points, however busy the machine was and however often the daemon restarted.
"""

# Of a whole run, a stored curve has about so many points, and some more at its beginning.
MOST_POINTS = 2000
# At the beginning marks are this share of the way so far apart: who watches a run of days sees its
# curve grow after seconds.
_EARLY_SHARE = 50
# And this share where nothing says how long the run will be.
_LATE_SHARE = 400


def next_mark(step: int, total: int) -> int:
    """The step from which the next value is stored, after one that was stored at `step`.

    Args:
        step: Where the last stored value is.
        total: The steps of the whole run; 0 if unknown. Marks then get wider as the run gets
            longer, and so they do for a run that passes its total.
    """
    usual = total // MOST_POINTS if step < total else step // _LATE_SHARE
    width = max(1, min(usual, step // _EARLY_SHARE))
    return (step // width + 1) * width


class Marks:
    """Where each curve of a run was last stored."""

    def __init__(self) -> None:
        self._stored: dict[str, int] = {}

    def due(self, name: str, step: int, total: int) -> bool:
        """Whether a value of this curve is to be stored."""
        stored = self._stored.get(name)
        # Steps that go back are a worker's that has begun again, and a curve of their own.
        return stored is None or step < stored or step >= next_mark(stored, total)

    def store(self, name: str, step: int) -> None:
        """Remember that a value was stored here."""
        self._stored[name] = step
