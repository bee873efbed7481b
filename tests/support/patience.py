"""How long a test waits for something that must happen.

The time only ends a test that would never end: far more than a machine needs that does ten other
things. What happens at once costs a test nothing.
"""

PATIENCE_S = 150.0

# The grace of a run that is to save before it ends: the default of tests ends it unsaved where the
# machine is busy. A run that does save never waits for so long.
TIME_TO_SAVE = str(PATIENCE_S)
