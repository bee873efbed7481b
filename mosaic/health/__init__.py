"""Is a run healthy? Rules over the numbers that it reports. Pure: no clock, no daemon, no file but
the curves that come with the package.

`Monitor` hears what the daemon hears and says what is wrong, once for each rule. `known` has the
curves of this project's learning records, to compare with. `rules` has one
function for each thing that goes wrong in reinforcement learning; the numbers in them were chosen
on recorded curves, good and bad (`tests/health`).
"""

from mosaic.health.known import KnownCurve, known_curve
from mosaic.health.monitor import Monitor
from mosaic.health.rules import RULES, Finding

__all__ = ["RULES", "Finding", "KnownCurve", "Monitor", "known_curve"]
