"""The headline numbers of a run: their names in messages, their tags in curves.

A message says `episodic_return`, a curve is called `charts/episodic_return`, as CleanRL's charts
are. Code that stores or looks for a curve takes its tag from here.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

RETURN = "episodic_return"
LENGTH = "episodic_length"
SPEED = "sps"
# Finished episodes of the run so far, those of the run that it continues included.
EPISODES = "episodes"

# The return and the length of a run are means over so many finished episodes, the newest ones. A
# number of episodes and not of seconds: the same run then has the same return, however busy the
# machine was.
LAST_EPISODES = 100

TAGS: Mapping[str, str] = {
    RETURN: "charts/episodic_return",
    LENGTH: "charts/episodic_length",
    SPEED: "charts/SPS",
    EPISODES: "charts/episodes",
}
# An evaluation counts episodes, not steps: its curves are never taken for learning curves.
_EVALUATION = "eval/"
EVALUATION_TAGS: Mapping[str, str] = {
    RETURN: "eval/episodic_return",
    LENGTH: "eval/episodic_length",
}
# Evaluations beside training: over the step whose policy was judged.
EVALUATED_RETURN = "evaluation/return"
SAMPLED_RETURN = "evaluation/return_sampled"
EVALUATED_LENGTH = "evaluation/length"
BEST_STEP = "evaluation/best_step"
REWARD_TERMS = "reward/"
_TERM = "reward_"
_ENDS = ("_low", "_high")
LOSSES = "losses/"
# One point, of a member of a run whose numbers are no longer finite: the step at which that was.
DIVERGED = "charts/diverged"
_NAMES = {tag: name for name, tag in TAGS.items()}
_GROUPS = ("charts/", "evaluation/", _EVALUATION, REWARD_TERMS, LOSSES)

Curve = TypeVar("Curve")


def tag_of(name: str) -> str:
    """The tag under which a number of a message is stored; other numbers keep their name."""
    return TAGS.get(name, name)


def name_of(tag: str) -> str | None:
    """The name of a curve's newest value in messages; None for what messages leave out."""
    return _NAMES.get(tag, tag if tag.startswith(LOSSES) else None)


def headline(curves: Mapping[str, Curve], name: str) -> Curve | None:
    """The curve of a headline number: of training, else of an evaluation, else None."""
    for tag in (TAGS[name], EVALUATION_TAGS.get(name, "")):
        if tag in curves:
            return curves[tag]
    return None


def is_evaluation(tag: str) -> bool:
    """Whether the points of a curve count episodes; those of all others count steps."""
    return tag.startswith(_EVALUATION)


def ends_of(tag: str) -> tuple[str, str]:
    """The tags of the lower and the upper end of the interval around a curve."""
    low, high = _ENDS
    return tag + low, tag + high


def is_end(tag: str, tags: Collection[str]) -> bool:
    """Whether a curve is the end of an interval around another one that is there too."""
    return any(tag.endswith(end) and tag.removesuffix(end) in tags for end in _ENDS)


def term_tag(name: str) -> str:
    """The curve of a number of an environment's `info` that is a part of its reward; else empty."""
    return REWARD_TERMS + name.removeprefix(_TERM) if name.startswith(_TERM) else ""


def tag_order(tag: str) -> tuple[int, str]:
    """A sort key: the return first, then charts, evaluations, losses, and the rest."""
    if tag in (TAGS[RETURN], EVALUATION_TAGS[RETURN]):
        return (0, tag)
    for place, prefix in enumerate(_GROUPS, start=1):
        if tag.startswith(prefix):
            return (place, tag)
    return (len(_GROUPS) + 1, tag)
