"""Who took a recorded step, for runs in which a person and a policy take turns. Pure."""

import json

PERSON, POLICY = "person", "policy"
# The mode of such runs.
TAKE_OVER = "take_over"


def actor_of(info_json: str) -> str:
    """`person` or `policy`; empty where the step does not say."""
    if '"actor"' not in info_json:
        return ""
    actor = _document(info_json).get("actor")
    return actor if actor in (PERSON, POLICY) else ""


def person_steps(info_json: str) -> int | None:
    """How many steps of an episode a person took; None where its record does not say."""
    if '"person_steps"' not in info_json:
        return None
    count = _document(info_json).get("person_steps")
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def _document(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
