"""Several trainings in one run: which there are, and what their curves are called. Pure.

A compiled program can train several seeds and several settings at once. Each such training is a
member: it has its own curves of return and length, and is compared as a run of its own would be.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Settings of a run that trains several members: how many seeds, and which settings differ.
NUM_SEEDS, VMAP_SWEEP = "num_seeds", "vmap_sweep"
SYNTAX = '"learning_rate=1e-3,3e-4 gamma=0.9,0.99"'
# In no tag that a worker writes for a whole run.
_MARK, _SEED_MARK = "@", "@seed="

Point = dict[str, float]
"""One combination of settings."""


@dataclass(frozen=True, order=True)
class Member:
    """One of the trainings of a run.

    Attributes:
        seed: Its seed.
        settings: What sets it apart from others of this seed, such as `gamma=0.9,ent_coef=0.01`;
            empty where all have the same settings.
    """

    seed: int
    settings: str = ""

    def tag(self, tag: str) -> str:
        """What the member's own curve is called."""
        settings = f"{_MARK}{self.settings}" if self.settings else ""
        return f"{tag}{settings}{_SEED_MARK}{self.seed}"

    @property
    def key(self) -> str:
        """Its name in a checkpoint; that of a seed alone is its number."""
        return f"{self.settings}{_MARK}{self.seed}" if self.settings else str(self.seed)

    @property
    def point(self) -> Point:
        """Its own settings."""
        parts = (part.partition("=") for part in self.settings.split(",") if part)
        return {name: float(value) for name, _, value in parts}

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.settings.replace(",", " "), f"seed {self.seed}"]))


def split_member(tag: str) -> tuple[str, Member | None]:
    """The tag without its member, and the member; None for a curve of the whole run."""
    whole, mark, seed = tag.rpartition(_SEED_MARK)
    if not mark or not seed.isdecimal():
        return tag, None
    chart, mark, settings = whole.partition(_MARK)
    return (chart, Member(int(seed), settings)) if mark else (whole, Member(int(seed)))


def members_of(seeds: Sequence[int], sweep: str = "") -> list[Member]:
    """Every combination of settings with every seed.

    Args:
        seeds: The seeds.
        sweep: What `read_points` reads; empty where settings do not differ.

    Raises:
        ValueError: As `read_points` does.
    """
    if not sweep:
        return [Member(seed) for seed in seeds]
    named = [member_settings(point) for point in read_points(sweep)]
    return [Member(seed, settings) for settings in named for seed in seeds]


def members_asked(settings: Mapping[str, object], seed: int | None) -> list[Member]:
    """The members of a run with these settings; empty for an ordinary run."""
    count, sweep = settings.get(NUM_SEEDS, 1), settings.get(VMAP_SWEEP, "")
    if seed is None or not isinstance(count, int) or not isinstance(sweep, str):
        return []
    if count < 2 and not sweep:
        return []
    try:
        return members_of(range(seed, seed + count), sweep)
    except ValueError:
        # Such a run was refused by its worker, and has no curves.
        return []


def settings_alone(settings: Mapping[str, object], member: Member) -> dict[str, object]:
    """The settings of a run that would train this member alone."""
    common = {name: settings[name] for name in settings if name not in (NUM_SEEDS, VMAP_SWEEP)}
    return {**common, **member.point}


def member_settings(point: Mapping[str, float]) -> str:
    """One combination as text; the shortest that gives exactly these numbers again."""
    return ",".join(f"{name}={float(value)!r}" for name, value in point.items())


def sweep_text(points: Sequence[Mapping[str, float]]) -> str:
    """Combinations as `read_points` reads them."""
    return "; ".join(member_settings(point).replace(",", " ") for point in points)


def read_points(text: str) -> list[Point]:
    """Every combination of the values that a text lists.

    Args:
        text: `learning_rate=1e-3,3e-4 gamma=0.9,0.99` for all four combinations; with a semicolon
            between them, the combinations of one list after those of another.

    Raises:
        ValueError: It cannot be read; the message says why.
    """
    points = [point for part in text.split(";") if part.strip() for point in _grid(part)]
    if not points:
        raise ValueError(f"it lists no settings; write {SYNTAX}")
    names = points[0].keys()
    for point in points:
        if point.keys() != names:
            raise ValueError(f"every part must set the same settings: {', '.join(names)}")
    if len({member_settings(point) for point in points}) < len(points):
        raise ValueError("it lists the same settings twice")
    return points


def _grid(text: str) -> list[Point]:
    lists: dict[str, list[float]] = {}
    for word in text.split():
        name, equals, values = word.partition("=")
        name = name.removeprefix("--").replace("-", "_")
        if not equals or not name:
            raise ValueError(f"{word!r} is not a list of values; write {SYNTAX}")
        if name in lists:
            raise ValueError(f"{name} is given twice")
        try:
            lists[name] = [float(value) for value in values.split(",")]
        except ValueError:
            raise ValueError(f"the values of {name} must be numbers, not {values!r}") from None
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
