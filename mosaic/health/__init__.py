"""Is a run healthy? Rules over the numbers that it reports. Pure: no file, no clock, no daemon.

`Monitor` hears what the daemon hears and says what is wrong, once for each rule. `rules` has one
function for each thing that goes wrong in reinforcement learning; the numbers in them were chosen
on recorded curves, good and bad (`tests/health`).
"""

from mosaic.health.monitor import Monitor
from mosaic.health.rules import RULES, Finding

__all__ = ["RULES", "Finding", "Monitor"]
