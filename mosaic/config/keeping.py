"""Which checkpoints of a run are kept: `last:3`, `every:100000,best,last:2`. Pure.

The same words are used by `mosaic train --keep`, the window's form, configurations and workers. A
plain number is how many of the newest to keep, as in earlier configurations.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT = "last:3"
# A file with the name of a checkpoint and this ending keeps the checkpoint, whatever the policy.
PIN_SUFFIX = ".pin"
_MOST = 1000
_EXPECTED = "give one or more of last:K, every:N and best, such as every:100000,best,last:3"


@dataclass(frozen=True)
class KeepPolicy:
    """What a run keeps of the checkpoints that it has saved.

    Attributes:
        last: So many of the newest. At least one: it is the way back after a crash.
        every: The first one at or after each multiple of so many steps; 0 for none.
        best: The one with the highest return at the time it was saved.
    """

    last: int = 1
    every: int = 0
    best: bool = False

    @classmethod
    def parse(cls, text: str | int) -> "KeepPolicy":
        """Read a policy.

        Raises:
            ValueError: With a sentence that says what is allowed.
        """
        words = str(text).replace(" ", "").split(",")
        if len(words) == 1 and words[0].isdecimal():
            words = [f"last:{words[0]}"]
        rules: dict[str, int] = {}
        for word in words:
            name, _, count = word.partition(":")
            if name in rules:
                raise ValueError(f"{name!r} is given twice; keep one")
            rules[name] = _count(name, count, word)
        return cls(
            last=rules.get("last", 1), every=rules.get("every", 0), best=bool(rules.get("best"))
        )

    def kept(self, saved: Mapping[int, float | None]) -> set[int]:
        """The steps whose checkpoints stay.

        Args:
            saved: The steps of all checkpoints, each with the return it was saved with; None
                where that is not known.
        """
        steps = sorted(saved)
        kept = set(steps[-self.last :])
        if self.every:
            firsts: dict[int, int] = {}
            for step in steps:
                firsts.setdefault(step // self.every, step)
            # What was saved before the first multiple marks nothing.
            kept.update(step for turn, step in firsts.items() if turn)
        scores = {step: score for step, score in saved.items() if score is not None}
        if self.best and scores:
            kept.add(max(scores, key=lambda step: (scores[step], step)))
        return kept

    def next_save(self, step: int) -> int | None:
        """The step at or after which the next checkpoint must be written, whatever the clock."""
        return (step // self.every + 1) * self.every if self.every else None


def check(text: str | int) -> str | int:
    """The policy as it was given, once it has been read.

    Raises:
        ValueError: It is none.
    """
    KeepPolicy.parse(text)
    return text


def _count(name: str, count: str, word: str) -> int:
    if name == "best" and not count:
        return 1
    if name in ("last", "every") and count.isdecimal():
        number = int(count)
        if name == "last" and not 1 <= number <= _MOST:
            raise ValueError(f"last:K keeps 1 to {_MOST:,} checkpoints, not {number:,}")
        if name == "every" and number < 1:
            raise ValueError("every:N counts steps: at least 1")
        return number
    raise ValueError(f"{word!r} names no checkpoints to keep; {_EXPECTED}")
