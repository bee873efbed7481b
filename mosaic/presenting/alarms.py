"""What a run's health alarms say to people."""

from collections.abc import Callable
from dataclasses import dataclass

from mosaic.records import AlarmRecord, RunRecord

# The part of each rule's advice that is a number: a parameter, and what to multiply it by. The
# first that the algorithm has, with a value above 0, counts.
_CHANGES: dict[str, tuple[tuple[str, float], ...]] = {
    "not-a-number": (("learning_rate", 0.1),),
    "kl-explosion": (("learning_rate", 0.1),),
    "kl-zero": (("learning_rate", 10.0),),
    "entropy-collapse": (("ent_coef", 10.0), ("learning_rate", 0.1)),
    "entropy-stuck": (("ent_coef", 0.1),),
    "value-explosion": (("learning_rate", 0.1),),
    "critic-blind": (("vf_coef", 2.0), ("learning_rate", 2.0)),
    "unlearning": (("learning_rate", 0.1),),
    "forgetting": (("learning_rate", 0.3),),
}


@dataclass(frozen=True)
class Change:
    """What to try, as a setting."""

    name: str
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.name} {self.before:g} → {self.after:g}"


def proposed_change(run: RunRecord, value_of: Callable[[str], object]) -> Change | None:
    """What the first alarm that can be answered with a number advises; None if none can.

    Args:
        run: The run with its alarms.
        value_of: The value of a setting of the run, by name; None if it has none.
    """
    for alarm in run.alarms:
        for name, factor in _CHANGES.get(alarm.rule, ()):
            before = value_of(name)
            if isinstance(before, int | float) and not isinstance(before, bool) and before > 0:
                # As people write it: 0.1 × 0.3 is not 0.030000000000000002.
                return Change(name, float(before), float(f"{before * factor:.6g}"))
    return None


def alarm_text(run: RunRecord) -> str:
    """Every alarm of a run: what, since when, the evidence, what to try; or nothing."""
    return "\n".join(sentence(alarm) for alarm in run.alarms)


def way_back(run: RunRecord) -> int | None:
    """The step of the last checkpoint from before the first alarm that has one."""
    steps = (alarm.checkpoint_step for alarm in run.alarms)
    return next((step for step in steps if step is not None), None)


def sentence(alarm: AlarmRecord) -> str:
    """One alarm."""
    advice = f" Try: {alarm.advice}." if alarm.advice else ""
    return f"{alarm.rule} since step {alarm.step:,}: {alarm.evidence}.{advice}"
