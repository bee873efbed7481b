"""What an agent believes and intends, as the live tab shows it."""

import json

from mosaic.presenting.mind import read_mind


def test_a_mind_is_read_from_a_step_and_compared_with_the_last_one() -> None:
    """The tab marks exactly the beliefs that were not held one step before."""
    first = read_mind(json.dumps({"decision": "explore", "beliefs": ["state(0)", "epsilon(1)"]}))
    second = read_mind(json.dumps({"intention": "!act", "beliefs": ["state(4)", "epsilon(1)"]}))
    assert first is not None
    assert second is not None
    assert first.decision == "explore"
    assert second.intention == "!act"
    assert second.changed_since(first) == {"state(4)"}
    assert second.changed_since(None) == {"state(4)", "epsilon(1)"}


def test_agents_that_tell_nothing_have_no_mind() -> None:
    """Steps of other workers, and damaged ones, show no panel at all."""
    for info in ("", "{}", '{"beliefs": 3}', '{"beliefs": [', '["beliefs"]'):
        assert read_mind(info) is None
