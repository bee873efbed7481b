"""What goes wrong in training, one function each: from a run's history to a finding, or to none.

A rule fires on evidence that lasts, never on one number. What was chosen by hand is a named
constant; each was set so that the rule is silent on every recorded good curve and fires on the
runs that were broken for it (`tests/health`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mosaic.curves.names import RETURN, SPEED
from mosaic.health.history import History, Point, Series, middle

KL, ENTROPY = "losses/approx_kl", "losses/entropy"
EXPLAINED, VALUE_LOSS = "losses/explained_variance", "losses/value_loss"
VALUES = ("losses/q_values", "losses/qf1_values", "losses/qf_values")

# A healthy PPO update moves the policy by 0.001 to 0.05.
_KL_TOO_LARGE, _KL_ABSURD, _KL_NOTHING = 0.3, 10.0, 1e-9
_SOME_REPORTS, _MANY_REPORTS = 3, 8
# Of the entropy at the beginning, which is nearly that of a uniform policy.
_ENTROPY_GONE, _ENTROPY_UNTOUCHED = 0.02, 0.995
# Values can exceed the returns seen so far while they are learned, but not by this much.
_VALUES_BEYOND_RETURNS, _LOSS_BEYOND_RETURNS = 20.0, 100.0
_EXPLAINS_NOTHING = 0.005
_SPEED_LEFT, _SLOW_FOR_S = 0.1, 30.0
_RETURN_LOST, _GAIN_LOST = 0.5, 0.8
# A run is compared with what the worst seed of the record had after half of its steps, and is far
# behind with less than half of that gain. It has to stay there, without rising, for so much of its
# schedule that every rule with a narrower diagnosis has had its chance.
_KNOWN_AT, _KNOWN_SHARE, _BEHIND_FOR, _STILL_RISING = 0.5, 0.5, 0.5, 0.1
# Before the record itself has learned half of what it learns, being behind it means nothing.
_RECORD_HAS_LEARNED = 0.5


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a run.

    Attributes:
        rule: Its name, such as `kl-explosion`.
        step: Where it began.
        evidence: The numbers, in a sentence.
        advice: What to try.
    """

    rule: str
    step: int
    evidence: str
    advice: str


Rule = Callable[[History], Finding | None]


def kl_explosion(history: History) -> Finding | None:
    """Each update throws the policy far away from where its data came from."""
    series = history.get(KL)
    if series is None:
        return None
    points = history.lasting(series, lambda kl: kl > _KL_TOO_LARGE, _SOME_REPORTS)
    if series.newest > _KL_ABSURD:
        # The one exception: such an update leaves nothing of the policy, and there is no second.
        points = points or series.points[-1:]
    if not points:
        return None
    return Finding(
        "kl-explosion",
        points[0].step,
        f"the policy moves by a KL divergence of {middle(points):.3g} in an update; "
        f"up to {_KL_TOO_LARGE:g} is usual",
        "lower learning_rate, use fewer update_epochs, or set target_kl",
    )


def kl_zero(history: History) -> Finding | None:
    """The updates do not change the policy at all."""
    series = history.get(KL)
    # Late in a schedule an annealed learning rate makes the updates tiny on purpose.
    if series is None or history.progress > 0.7:
        return None
    points = history.lasting(series, lambda kl: abs(kl) < _KL_NOTHING, _MANY_REPORTS, 0.2)
    if not points:
        return None
    return Finding(
        "kl-zero",
        points[0].step,
        f"the policy has not moved since step {points[0].step:,}: the KL divergence of an update "
        f"is below {_KL_NOTHING:g}",
        "raise learning_rate, and check that the policy's loss reaches its weights",
    )


def entropy_collapse(history: History) -> Finding | None:
    """The policy always does the same, and not because that is right."""
    series = history.get(ENTROPY)
    if series is None or series.first <= 0 or _improved(history):
        return None
    gone = _ENTROPY_GONE * series.first
    # From both sides: the entropy of a Gaussian policy passes zero on its way, and may.
    points = history.lasting(series, lambda entropy: 0 <= entropy <= gone, _SOME_REPORTS, 0.1)
    if not points:
        return None
    return Finding(
        "entropy-collapse",
        points[0].step,
        f"the policy's entropy fell from {series.first:.3g} to {middle(points):.2g} while the "
        "return did not improve: it stopped exploring",
        "raise ent_coef or lower learning_rate, and continue from before the collapse",
    )


def entropy_stuck(history: History) -> Finding | None:
    """The policy stays as random as it began."""
    series = history.get(ENTROPY)
    if series is None or series.first <= 0 or _improved(history):
        return None
    most = _ENTROPY_UNTOUCHED * series.first
    points = history.lasting(series, lambda entropy: entropy >= most, _MANY_REPORTS, 0.4)
    if not points:
        return None
    return Finding(
        "entropy-stuck",
        points[0].step,
        f"the policy is still as random as at the start: its entropy is {middle(points):.3g} of "
        f"{series.first:.3g}",
        "lower ent_coef; if rewards are rare, make them more frequent or train longer",
    )


def value_explosion(history: History) -> Finding | None:
    """Values, or the error in them, are far beyond any return that was seen."""
    returns = history.get(RETURN)
    if returns is None:
        return None
    scale = max(1.0, *(abs(point.value) for point in returns.points))
    limits = [(tag, s, _VALUES_BEYOND_RETURNS * scale) for tag, s in history.any_of(VALUES)]
    limits += [
        (tag, s, _LOSS_BEYOND_RETURNS * scale**2) for tag, s in history.any_of((VALUE_LOSS,))
    ]
    for tag, series, limit in limits:
        points = history.lasting(series, partial(_beyond, limit), _SOME_REPORTS)
        if points:
            return Finding(
                "value-explosion",
                points[0].step,
                f"{tag} is {points[-1].value:.3g}, while no return was larger than {scale:.4g}",
                "lower learning_rate or gamma, update the target network less often, or scale "
                "the rewards",
            )
    return None


def critic_blind(history: History) -> Finding | None:
    """The critic explains nothing of the returns, for long."""
    series = history.get(EXPLAINED)
    if series is None or _settled(history):
        return None
    points = history.lately(series, 0.5, _MANY_REPORTS)
    if not points or middle(points) > _EXPLAINS_NOTHING:
        return None
    return Finding(
        "critic-blind",
        points[0].step,
        f"the critic's explained variance is {middle(points):.2g} since step "
        f"{points[0].step:,}: its values say nothing about the returns",
        "raise vf_coef or learning_rate, normalise observations and rewards, and check that the "
        "critic's loss reaches its weights",
    )


def speed_collapse(history: History) -> Finding | None:
    """Training has become ten times slower than it was."""
    series = history.get(SPEED)
    # Before the first update the environments run alone, which is much faster.
    started = _learning_since(history)
    if series is None or started is None:
        return None
    points = [point for point in series.since(started) if point.value > 0]
    slow = [point for point in points if point.at >= points[-1].at - _SLOW_FOR_S]
    before = points[: len(points) - len(slow)]
    if len(slow) < _SOME_REPORTS or len(before) < _SOME_REPORTS:
        return None
    usual = middle(before)
    if max(point.value for point in slow) >= _SPEED_LEFT * usual:
        return None
    return Finding(
        "speed-collapse",
        slow[0].step,
        f"{middle(slow):,.0f} steps a second for {_SLOW_FOR_S:.0f} s, after {usual:,.0f} before",
        "look for other programs on the machine, a full disk or memory, and episodes that have "
        "become slower to simulate",
    )


def unlearning(history: History) -> Finding | None:
    """The return is far below what an untrained policy had."""
    series = history.get(RETURN)
    if series is None or not history.schedule:
        return None
    start = _start(history, series)
    floor = start - _RETURN_LOST * abs(start)
    points = history.lasting(series, lambda total: total < floor, _SOME_REPORTS, 0.2)
    if not points:
        return None
    return Finding(
        "unlearning",
        points[0].step,
        f"the return is {middle(points):.4g} since step {points[0].step:,}; it began at "
        f"{start:.4g}",
        "check the signs of rewards, advantages and losses; lower learning_rate",
    )


def forgetting(history: History) -> Finding | None:
    """What was learned is lost again, for long."""
    series = history.get(RETURN)
    if series is None or not history.schedule:
        return None
    start = _start(history, series)
    points = history.lately(series, 0.2, _SOME_REPORTS)
    if not points:
        return None
    earlier = [point for point in series.points if point.step < points[0].step]
    if len(earlier) < _SOME_REPORTS:
        return None
    # Of neighbours the middle one: a single lucky report is not what was learned.
    best = max(middle(earlier[i : i + 3]) for i in range(len(earlier) - 2))
    gained = best - start
    floor = best - _GAIN_LOST * gained
    if gained <= 0.5 * abs(start) or any(point.value >= floor for point in points):
        return None
    return Finding(
        "forgetting",
        points[0].step,
        f"the return fell from {best:.4g} to {middle(points):.4g} and has stayed there since step "
        f"{points[0].step:,}",
        "continue from before the fall with a lower learning_rate, or with target_kl",
    )


def below_known(history: History) -> Finding | None:
    """The return stays far below what this algorithm is known to reach in this environment."""
    series, known = history.get(RETURN), history.known
    if series is None or known is None or not history.schedule:
        return None
    points = history.lately(series, _BEHIND_FOR, _MANY_REPORTS)
    if not points:
        return None
    # A longer schedule explores for longer, a shorter one has seen less: the lesser claim counts.
    place = min(points[-1].step, points[-1].step / history.total * known.total)
    reached = known.at(_KNOWN_AT * place)
    gained = reached - known.random
    if gained <= 0 or gained < _RECORD_HAS_LEARNED * known.gain:
        return None
    floor = known.random + _KNOWN_SHARE * gained
    third = max(1, len(points) // 3)
    rise = middle(points[-third:]) - middle(points[:third])
    if rise > _STILL_RISING * gained or any(point.value >= floor for point in points):
        return None
    return Finding(
        "below-known",
        points[0].step,
        f"the return stays at {middle(points):.4g}, while each of {known.seeds} recorded seeds had "
        f"at least {reached:.4g} by step {_KNOWN_AT * place:,.0f}",
        f"compare the settings with those of the record: {known.command}",
    )


def _beyond(limit: float, value: float) -> bool:
    return abs(value) > limit


def _start(history: History, series: Series) -> float:
    """The return of an untrained policy, as far as it was seen.

    Of the first reports the upper middle: the episodes that end first are the short ones, and a
    run that goes wrong does so from its first update.
    """
    early = series.points[0].step + 0.1 * history.schedule
    within = [point.value for point in series.points if point.step <= early]
    values = sorted(within if len(within) >= 5 else (p.value for p in series.points[:5]))
    return values[(3 * len(values)) // 4] if len(values) > 1 else values[0]


def _improved(history: History) -> bool:
    """Whether the return is clearly better than it began."""
    series = history.get(RETURN)
    if series is None:
        return False
    start = _start(history, series)
    return series.newest > start + 0.25 * abs(start)


def _settled(history: History) -> bool:
    """Whether all episodes end alike, as in a solved task: then there is nothing to explain."""
    series = history.get(RETURN)
    if series is None or not _improved(history):
        return False
    points = history.lately(series, 0.2, _SOME_REPORTS)
    values = [point.value for point in points]
    return bool(values) and max(values) - min(values) < 0.05 * abs(max(values))


def _learning_since(history: History) -> int | None:
    steps = [_began(series) for _, series in history.any_of((*VALUES, VALUE_LOSS, KL))]
    return min(steps, default=None)


def _began(series: Series) -> int:
    return series.points[0].step


RULES: Sequence[Rule] = (
    kl_explosion,
    kl_zero,
    entropy_collapse,
    entropy_stuck,
    value_explosion,
    critic_blind,
    speed_collapse,
    unlearning,
    forgetting,
    # Last: where another rule knows why, its name comes first.
    below_known,
)

__all__ = ["RULES", "Finding", "Point", "Rule"]
