"""How sure a model was of its action."""

import math

import pytest

from llm_worker.play.probability import TokenChances, action_probability

NAMES = ("turn left", "turn right", "go forward")


def _chances(text: str, likely: dict[str, float]) -> TokenChances:
    return TokenChances(text, {name: math.log(p) for name, p in likely.items()})


def test_only_what_continues_an_action_counts() -> None:
    """Chances of nonsense and of other words are left out; those of the actions add up to one."""
    tokens = [
        _chances('{"action": "', {'{"action": "': 1.0}),
        _chances("turn", {"turn": 0.3, "go": 0.1, "banana": 0.6}),
        _chances(" left", {" left": 0.2, " right": 0.2, " around": 0.6}),
        _chances('"}', {'"}': 0.9, " now": 0.1}),
    ]
    assert action_probability(tokens, NAMES) == pytest.approx(0.75 * 0.5)


def test_a_token_may_begin_before_the_action() -> None:
    """The quote may belong to the first token of the action; its alternatives have it, too."""
    tokens = [
        _chances('{"reasoning": "action", "action":', {'{"reasoning": "action", "action":': 1.0}),
        _chances(' "go', {' "go': 0.25, ' "turn': 0.25, " 7": 0.5}),
        _chances(' forward"}', {' forward"}': 1.0}),
    ]
    assert action_probability(tokens, NAMES) == pytest.approx(0.5)


@pytest.mark.parametrize("text", ["", "go forward", '{"action": "fly"}', '{"action": "go forw'])
def test_without_a_whole_action_nothing_is_known(text: str) -> None:
    """No JSON, no known action, a cut answer: no number is made up."""
    assert action_probability([_chances(text, {text: 1.0})] if text else [], NAMES) is None
