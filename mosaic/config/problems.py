"""The codes of what can be wrong with a configuration, and how a place in it is written.

Apart from the check itself, because that needs pydantic: the daemon loads it with the first
submission, others that name a code never.
"""

from collections.abc import Sequence

NOT_JSON, MISSING, UNKNOWN_KEY, WRONG_TYPE = "CFG100", "CFG101", "CFG102", "CFG103"
OUT_OF_RANGE, UNKNOWN_WORKER, DENIED_VARIABLE = "CFG104", "CFG105", "CFG108"
PATH_ESCAPES, UNKNOWN_PLACEHOLDER, DUPLICATE_KEY, TOO_LARGE = "CFG109", "CFG110", "CFG111", "CFG112"
MISPLACED_CREDENTIAL = "CFG122"


def pointer(parts: Sequence[str | int]) -> str:
    """A JSON pointer of `parts`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
