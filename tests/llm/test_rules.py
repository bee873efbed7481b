"""The pure rules of a language model's game: words, answers, budgets, models, waiting."""

import random

import pytest

from llm_worker.describe import toy_text
from llm_worker.describe.grid import GridDescriber, GridView
from llm_worker.describe.numbers import describe_value
from llm_worker.errors import SettingsError
from llm_worker.play.actions import Action, Choices, Numbers
from llm_worker.play.answers import Decision, Invalid, read_answer
from llm_worker.play.budget import Limits, Spent, exhausted
from llm_worker.play.models import FREE, UNKNOWN, Price, find_model
from llm_worker.play.probability import TokenChances
from llm_worker.play.replies import Failure, Reply, Usage, next_wait, read_failure, read_reply
from llm_worker.settings import from_config

MOVES = Choices(("turn left", "turn right", "go forward"))
EMPTY, WALL, RED_BALL, UNSEEN = [1, 0, 0], [2, 5, 0], [6, 0, 0], [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ('{"reasoning": "x", "action": "go forward"}', 2),
        ('```json\n{"reasoning": "x", "action": "Turn_Left"}\n```', 0),
        ('I think {so}. {"action": 1}', 1),
        ("Reasoning: a wall.\nAction: turn right", 1),
        ("action: turn left? No. Action: **go forward**.", 2),
        ("I will go forward now", 2),
    ],
)
def test_answers_in_many_forms_mean_an_action(text: str, action: Action) -> None:
    """JSON, JSON in a code block, JSON after chatter, a line, a sentence: all are understood."""
    answer = read_answer(text, MOVES)
    assert isinstance(answer, Decision)
    assert answer.action == action


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 5000,
        '{"a":' * 3000,
        '{"reasoning": "x"}',
        '{"action": "fly"}',
        '{"action": null}',
        '{"action": true}',
        '{"action": 7}',
        "turn left or turn right",
    ],
)
def test_an_answer_without_one_action_is_invalid_and_says_what_is_allowed(text: str) -> None:
    """Nothing is guessed; the model is told which actions there are."""
    answer = read_answer(text, MOVES)
    assert isinstance(answer, Invalid)
    assert "go forward" in answer.reason


def test_numbers_are_checked_against_their_bounds() -> None:
    """A continuous action has as many numbers as needed, each within its own bounds."""
    force = Numbers((-1.0, 0.0), (1.0, 5.0))
    assert force.read([0.5, 5]) == [0.5, 5.0]
    assert [force.read(v) for v in ([2, 1], [0.1], [0.1, "x"], [0.1, True], "left")] == [None] * 5


def _view(
    image: list[list[list[int]]], direction: int = 0, place: tuple[int, int] = (5, 5)
) -> GridView:
    return GridView("go to the red ball", image, place, direction)


def test_a_grid_is_described_from_where_the_agent_stands_and_remembers() -> None:
    """A ball ahead to the left is still known, behind to the right, after turning around."""
    # Three columns (left, middle, right) and three rows, the agent in the middle of the last.
    image = [[EMPTY, RED_BALL, EMPTY], [WALL, EMPTY, EMPTY], [EMPTY, EMPTY, EMPTY]]
    describer = GridDescriber()
    first = describer.describe(_view(image))
    assert "Seen: red ball 1 forward 1 left" in first
    assert "Free: 1 forward 1 left 1 right 0 back" in first
    nothing = [[UNSEEN] * 3, [UNSEEN, UNSEEN, EMPTY], [UNSEEN] * 3]
    turned = describer.describe(_view(nothing, direction=2))
    assert "Seen: red ball 1 back 1 right" in turned


def test_a_goal_that_speaks_of_the_start_gets_the_sides_of_the_start() -> None:
    """`on your left` is about the first moment: each thing says where it was then."""
    image = [[EMPTY, RED_BALL, EMPTY], [EMPTY, EMPTY, EMPTY], [EMPTY, EMPTY, EMPTY]]
    describer = GridDescriber()
    mission = "pick up the ball on your left"
    describer.describe(GridView(mission, image, (5, 5), 0))
    later = describer.describe(GridView(mission, [[UNSEEN] * 3] * 3, (5, 5), 1))
    assert "red ball 1 left 1 forward" not in later
    assert "(start: in front left)" in later


def test_what_is_carried_is_told_and_not_seen() -> None:
    """MiniGrid shows the carried thing in the agent's own cell; it is not on the floor."""
    image = [[EMPTY] * 3, [EMPTY, EMPTY, RED_BALL], [EMPTY] * 3]
    text = GridDescriber().describe(_view(image))
    assert "Holding: red ball" in text
    assert "Seen: nothing" in text


def test_toy_worlds_are_told_as_places_not_numbers() -> None:
    """A state's number becomes rows, columns, holes, stands and cards."""
    lake = toy_text.frozen_lake(4, ["SFFF", "FHFH", "FFFH", "HFFG"])
    assert "row 1, column 0" in lake
    assert "right: hole" in lake
    assert "left: edge" in lake
    assert "in the taxi" in toy_text.taxi(((2 * 5 + 3) * 5 + 4) * 4 + 1)
    assert "usable ace" in toy_text.blackjack([18, 1, 1])
    assert "row 3, column 0" in toy_text.cliff_walking(36)


def test_any_other_observation_is_described_by_what_it_is_made_of() -> None:
    """Dictionaries, tuples, small and large arrays, texts: everything has words."""
    numpy = pytest.importorskip("numpy")
    told = describe_value({"a": numpy.array([1.23456, 2.0]), "b": (3, "north")})
    assert told == "a: [1.235, 2.0]\nb: part 0: 3\npart 1: north"
    assert describe_value(numpy.zeros((84, 84, 3), "uint8")).startswith("84 × 84 × 3 numbers")


def test_a_budget_ends_before_the_answer_that_would_pass_it() -> None:
    """Tokens, dollars and seconds: the longest possible answer is counted before it is asked."""
    price = Price(1.0, 10.0)
    spent = Spent().plus(Usage(100, 50), price)
    # Spent are 150; the next request may take 110 and 50 more.
    assert exhausted(spent, Limits(tokens=310), 50, price) == ""
    assert "tokens" in exhausted(spent, Limits(tokens=309), 50, price)
    assert spent.cost == pytest.approx(0.0006)
    assert exhausted(spent, Limits(cost=0.00122), 50, price) == ""
    assert "dollars" in exhausted(spent, Limits(cost=0.0012), 50, price)
    assert "seconds" in exhausted(spent.with_seconds(60), Limits(seconds=60), 50, price)


def test_an_unknown_price_stays_unknown() -> None:
    """One request of unknown price makes the whole cost unknown; a cost limit is then refused."""
    assert Spent().plus(Usage(1, 1), UNKNOWN).plus(Usage(1, 1), FREE).cost is None
    with pytest.raises(SettingsError, match="price of this model is unknown"):
        from_config({"extras": {"model": "openai:gpt-x", "budget_cost": 1}})


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("http://h:1#m", "http://h:1/v1"),
        ("https://h/api/v1/chat/completions", "https://h/api/v1"),
        ("ollama:llama3.2", "http://127.0.0.1:11434/v1"),
    ],
)
def test_a_model_is_a_preset_or_a_url(text: str, base: str) -> None:
    """Presets have their usual address; a URL may be given with or without its end."""
    assert find_model(text).base_url == base


@pytest.mark.parametrize(
    "text", ["olama:x", "ollama", "http://", "https://k:s@h/v1", "http://h/v1?key=1"]
)
def test_a_model_that_is_none_is_refused_with_the_reason(text: str) -> None:
    """Misspelled presets, missing names, and keys in a URL are refused."""
    with pytest.raises(SettingsError, match="model"):
        from_config({"extras": {"model": text}})


def test_every_wrong_setting_is_listed_at_once() -> None:
    """Unknown names with the nearest known one, wrong types, values out of range."""
    with pytest.raises(SettingsError) as refused:
        from_config({"extras": {"episods": 3, "temperature": 9, "history": "many"}})
    assert all(word in str(refused.value) for word in ("'episodes'", "temperature", "history"))


def test_replies_of_all_kinds_are_read_or_refused() -> None:
    """Reasoning, tokens, a cut answer; and whatever is not a reply is a failure worth a retry."""
    reply = read_reply(
        b'{"choices": [{"message": {"content": "x", "reasoning_content": "hm"}, "finish_reason": '
        b'"length"}], "usage": {"prompt_tokens": 7, "completion_tokens": 2, '
        b'"prompt_tokens_details": {"cached_tokens": 5}}}'
    )
    assert reply == Reply("x", "hm", whole=False, usage=Usage(7, 2, 5))
    likely = read_reply(
        b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content": [7, {"token": "x", '
        b'"logprob": -1, "top_logprobs": [{"token": "y", "logprob": -2}, null]}]}}]}'
    )
    assert isinstance(likely, Reply)
    assert likely.tokens == [TokenChances("x", {"x": -1.0, "y": -2.0})]
    for content in (b"", b"null", b'{"choices": [{"message": {"content": null}}]}', b"[" * 99999):
        failure = read_reply(content)
        assert isinstance(failure, Failure)
        assert failure.temporary


def test_what_a_retry_cannot_mend_is_not_retried() -> None:
    """A wrong key or name ends at once with a hint; an overloaded server is asked again."""
    kinds = {status: read_failure(status, b"", "7") for status in (401, 403, 404, 400, 429, 503)}
    temporary = {s for s, f in kinds.items() if isinstance(f, Failure) and f.temporary}
    assert temporary == {429, 503}
    busy, refused = kinds[429], kinds[401]
    assert isinstance(busy, Failure)
    assert isinstance(refused, Failure)
    assert busy.wait_s == 7
    assert "api_key" in refused.hint


def test_waiting_doubles_has_jitter_and_an_end() -> None:
    """Each wait is within its bounds, differs between runs, and never exceeds half a minute."""
    chance = random.Random(1)
    waits = [next_wait(attempt, 0, chance) for attempt in range(12)]
    for attempt, wait in enumerate(waits):
        ceiling = min(30.0, 0.5 * 2**attempt)
        assert ceiling / 2 <= wait <= ceiling
    assert next_wait(0, 5, chance) == 5
    assert next_wait(0, 3600, chance) == 30
