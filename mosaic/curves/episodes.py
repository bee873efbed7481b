"""The return of a run, defined once: the mean over its newest finished episodes.

Workers count their episodes here, whatever they train with. The table, the overview, the charts,
CSV files, the command line, W&B, sweeps and archives all show the numbers that come out.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from mosaic.curves.members import Member
from mosaic.curves.names import EPISODES, LAST_EPISODES, LENGTH, RETURN, tag_of

# In the state of several members, beside their names.
_GIVEN_UP = "given up"
_NEXT_MARK = "next mark"


class NewestEpisodes:
    """The last `LAST_EPISODES` finished episodes of a run, and how many there were in all.

    Attributes:
        finished: How many there were.
        next_mark: The step from which their means are stored next (`mosaic.curves.pace`); kept
            here because a run that is interrupted and continued stores the same points as one
            that is not.
    """

    next_mark = 0

    def __init__(self) -> None:
        self.finished = 0
        self._returns: deque[float] = deque(maxlen=LAST_EPISODES)
        self._lengths: deque[int] = deque(maxlen=LAST_EPISODES)

    def add(self, episodes: Iterable[tuple[float, int]]) -> None:
        """Count episodes that ended, each with its return and its length."""
        for total, length in episodes:
            self.finished += 1
            self._returns.append(float(total))
            self._lengths.append(int(length))

    def count_older(self, episodes: int) -> None:
        """Count episodes that are too old to be among the newest ones; add those afterwards."""
        self.finished += episodes

    def means(self) -> dict[str, float]:
        """The return, the length and the number of finished episodes; empty before the first."""
        if not self.finished:
            return {}
        # `fmean` sums without rounding, so the result does not depend on how episodes were batched.
        return {
            RETURN: fmean(self._returns),
            LENGTH: fmean(self._lengths),
            EPISODES: float(self.finished),
        }

    def curves(self) -> dict[str, float]:
        """The same numbers under the tags that they are stored with."""
        return {tag_of(name): value for name, value in self.means().items()}

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint keeps, so that the return of a resumed run continues."""
        return {
            "finished": self.finished,
            "returns": list(self._returns),
            "lengths": list(self._lengths),
            _NEXT_MARK: self.next_mark,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.finished = state["finished"]
        self._returns = deque(state["returns"], maxlen=LAST_EPISODES)
        self._lengths = deque(state["lengths"], maxlen=LAST_EPISODES)
        # Checkpoints of earlier versions have none: the next episode is stored.
        self.next_mark = state.get(_NEXT_MARK, 0)


class EpisodesByMember:
    """The newest episodes of each member of a run that trains several at once.

    The run's own return is the mean over its members, each with its newest episodes.
    """

    next_mark = 0

    def __init__(self, members: Sequence[Member]) -> None:
        self.by_member = {member: NewestEpisodes() for member in members}
        self.given_up: set[Member] = set()

    def give_up(self, member: Member) -> None:
        """Leave out a member from now on, because its training has diverged."""
        self.given_up.add(member)

    def means(self) -> dict[str, float]:
        """The mean over members; the number of episodes is that of all members together."""
        found = [means for newest in self._training().values() if (means := newest.means())]
        if not found:
            return {}
        averages = {name: fmean(means[name] for means in found) for name in (RETURN, LENGTH)}
        return {**averages, EPISODES: sum(means[EPISODES] for means in found)}

    def curves(self) -> dict[str, float]:
        """The means under their tags, and those of each member under its own."""
        own = {
            member.tag(tag_of(name)): means[name]
            for member, newest in self._training().items()
            if (means := newest.means())
            for name in (RETURN, LENGTH)
        }
        return {**{tag_of(name): value for name, value in self.means().items()}, **own}

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint keeps."""
        kept = {member.key: newest.state_dict() for member, newest in self.by_member.items()}
        given_up = sorted(member.key for member in self.given_up)
        return {**kept, _GIVEN_UP: given_up, _NEXT_MARK: self.next_mark}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        for member, newest in self.by_member.items():
            newest.load_state_dict(state[member.key])
        # Checkpoints of earlier versions have neither.
        given_up, self.next_mark = state.get(_GIVEN_UP, ()), state.get(_NEXT_MARK, 0)
        self.given_up = {member for member in self.by_member if member.key in given_up}

    def _training(self) -> dict[Member, NewestEpisodes]:
        return {one: new for one, new in self.by_member.items() if one not in self.given_up}
