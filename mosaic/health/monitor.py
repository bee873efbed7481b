"""One run under observation: hears its reports, says what is wrong, each thing once."""

from collections.abc import Collection, Mapping

from mosaic.health.history import History
from mosaic.health.known import KnownCurve
from mosaic.health.rules import RULES, Finding


class Monitor:
    """Asks every rule after each report, and no rule again once it has fired.

    Args:
        known: What the run's algorithm is known to reach in its environment, for those rules that
            compare with it.
    """

    def __init__(self, known: KnownCurve | None = None) -> None:
        self._history = History(known)
        self._fired: set[str] = set()

    def hear(
        self,
        step: int,
        total: int,
        values: Mapping[str, float],
        at: float,
        known: Collection[str] = (),
    ) -> list[Finding]:
        """What a report shows to be wrong.

        Args:
            step: The step of the report.
            total: The steps of the whole schedule; 0 if unknown.
            values: The numbers, by the names that workers report them with.
            at: When it was heard, in seconds of a clock that never goes back.
            known: Rules that have fired for this run already, before this monitor existed.
        """
        self._history.add(step, total, values, at)
        found = []
        for rule in RULES:
            finding = rule(self._history)
            if finding and finding.rule not in self._fired and finding.rule not in known:
                self._fired.add(finding.rule)
                found.append(finding)
        return found
