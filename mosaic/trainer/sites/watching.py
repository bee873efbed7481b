"""Who watches runs on a shared folder, and the wish for pictures that their supervisors find."""

from dataclasses import dataclass, field

from mosaic.runs.directory import RunDirectory
from mosaic.trainer.sites import signals
from mosaic.trainer.sites.relay import FrameRelay, Wish

# A sender starts in seconds, on a busy node in many. After so long without a picture from a run
# that trains, another one is asked for.
_AGAIN_S = 30.0


@dataclass
class _Watched:
    """A run that was watched at least once.

    Attributes:
        wish: What its supervisor has been told; None when it has been told that no one watches.
        number: Of that wish.
        told: When that was, or when the last picture came.
        count: How many pictures had come by then.
    """

    relay: FrameRelay = field(default_factory=FrameRelay)
    wish: Wish | None = None
    number: int = 0
    told: float = 0.0
    count: int = 0


class Watching:
    """The relays of runs whose pictures have to be asked for through a file."""

    def __init__(self) -> None:
        self._runs: dict[str, _Watched] = {}

    def relay(self, run_id: str) -> FrameRelay:
        """Where a run's pictures arrive."""
        return self._runs.setdefault(run_id, _Watched()).relay

    def look(self, directory: RunDirectory, trains: bool, mono: float) -> None:
        """Tell a run's supervisor what is wanted now, where that has changed or had no effect.

        Args:
            directory: Of its newest attempt.
            trains: It should have pictures to send.
            mono: The moment.
        """
        watched = self._runs.get(directory.path.name)
        if watched is None:
            return
        wish, count = watched.relay.wish, watched.relay.count
        if not trains or count != watched.count:
            watched.told, watched.count = mono, count
        silent = wish is not None and mono - watched.told > _AGAIN_S
        if wish == watched.wish and not silent:
            return
        # A daemon that was restarted counts from 1 again; the clock does not.
        watched.number = max(watched.number + 1, int(mono * 10))
        watched.wish, watched.told = wish, mono
        signals.want_frames(directory.control, wish, watched.number)

    def forget(self, run_id: str) -> None:
        """The run has ended."""
        self._runs.pop(run_id, None)
