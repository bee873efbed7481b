"""Which environment of which process writes which lane."""

import atexit
import multiprocessing
import os
import re
import weakref
from typing import Protocol

from mosaic.fastlane import LaneTakenError, LaneWriter
from mosaic.fastlane.settings import Settings

# An environment that has not been stepped for so long has stopped: longer than a checkpoint of a
# large replay memory or an update takes, shorter than a viewer's patience.
_IDLE_NS = 2_000_000_000
_VECTOR_WORKER = re.compile(r"Worker<\w+>-(\d+)")


class LaneUser(Protocol):
    """What the book needs to know of a tap."""

    settings: Settings
    whole: bool
    lane: LaneWriter | None
    looked_at: int
    look_gap: int
    enrolled_at: int


class LaneBook:
    """Hands out the lanes of this process.

    Environments are numbered in the order in which they are first stepped or reset. `single`
    shows the one whose number is the chosen slot, `grid` the first few. An environment that
    is no longer stepped, because training ended and evaluation began or a curriculum moved on,
    gives its lane to one that is.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._numbers: weakref.WeakKeyDictionary[LaneUser, int] = weakref.WeakKeyDictionary()
        self._holders: weakref.WeakValueDictionary[int, LaneUser] = weakref.WeakValueDictionary()

    def claim(self, user: LaneUser, now: int) -> LaneWriter | None:
        """Give a lane to a tap if it should have one, else None."""
        if user not in self._numbers:
            self._numbers[user] = self._free_number()
            user.enrolled_at = now
        for number in self._candidates(user, now):
            lane = self._obtain(number, user, now)
            if lane is not None:
                self._holders[number] = user
                return lane
        return None

    def release(self, user: LaneUser) -> None:
        """Take a tap's lane and number back."""
        self._numbers.pop(user, None)
        if user.lane is not None:
            user.lane.close()
            user.lane = None

    def forget_parent(self) -> None:
        """In a forked child: the lanes belong to the parent, and only to it."""
        for user in list(self._numbers):
            if user.lane is not None:
                user.lane.abandon()
                user.lane = None
        self._numbers.clear()
        self._holders.clear()
        self.steps = 0

    def close_all(self) -> None:
        """Remove what this process shares, at its end."""
        for user in list(self._numbers):
            self.release(user)

    def _candidates(self, user: LaneUser, now: int) -> list[int]:
        if user.whole:
            return [0]
        settings, number = user.settings, self._numbers[user]
        lanes = [settings.slot] if settings.mode == "single" else list(range(settings.grid_limit))
        own = [number] if number in lanes else []
        # Other lanes only after those who should have them have had their chance.
        waited = now - user.enrolled_at >= _IDLE_NS
        return own + [lane for lane in lanes if lane != number and waited]

    def _obtain(self, number: int, user: LaneUser, now: int) -> LaneWriter | None:
        holder = self._holders.get(number)
        if holder is not None and holder.lane is not None:
            # By the asker's own pace, so that a slow loop does not look like a stopped one.
            if now - holder.looked_at < max(_IDLE_NS, 10 * user.look_gap):
                return None
            lane, holder.lane = holder.lane, None
            return lane
        try:
            return LaneWriter(user.settings.run_id, number, run_dir=user.settings.run_dir)
        except LaneTakenError:
            return None

    def _free_number(self) -> int:
        taken = set(self._numbers.values())
        number = _first_number()
        while number in taken:
            number += 1
        return number


def _first_number() -> int:
    """Where this process starts to number its environments.

    Gymnasium names the processes of a vector environment by their index; processes that other
    libraries start this way are at least counted from 1.
    """
    process = multiprocessing.current_process()
    named = _VECTOR_WORKER.fullmatch(process.name)
    if named:
        return int(named[1])
    identity = getattr(process, "_identity", ())
    return identity[-1] - 1 if identity else 0


book = LaneBook()
# Environments are often built before a library forks its workers. A child that closed the lanes
# it inherited would take them from its parent, which still writes.
os.register_at_fork(after_in_child=book.forget_parent)
atexit.register(book.close_all)
