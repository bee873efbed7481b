"""What a run's health alarms say to people."""

from mosaic.records import AlarmRecord, RunRecord


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
