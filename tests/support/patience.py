"""How long a test waits for something that must happen.

The time only ends a test that would never end: far more than a machine needs that does ten other
things. What happens at once costs a test nothing.
"""

PATIENCE_S = 150.0
