"""Several trainings in one run: what is asked for, and what their curves are called."""

from __future__ import annotations

import pytest

from mosaic.curves.episodes import EpisodesByMember
from mosaic.curves.members import (
    Member,
    member_settings,
    members_asked,
    read_points,
    settings_alone,
    split_member,
    sweep_text,
)


def test_every_combination_of_the_listed_values_is_trained() -> None:
    """Two lists give all their combinations, a semicolon adds others; dashes are as good."""
    assert read_points("learning-rate=1e-3,3e-4 gamma=0.9,0.99") == [
        {"learning_rate": 0.001, "gamma": 0.9},
        {"learning_rate": 0.001, "gamma": 0.99},
        {"learning_rate": 0.0003, "gamma": 0.9},
        {"learning_rate": 0.0003, "gamma": 0.99},
    ]
    points = [{"gamma": 0.1 + 0.2}, {"gamma": 1 / 3}]
    assert read_points(sweep_text(points)) == points, "no digit is lost on the way"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no settings"),
        ("gamma", "'gamma'"),
        ("gamma=0.9 gamma=0.8", "twice"),
        ("gamma=0.9,0.9", "twice"),
        ("gamma=high", "numbers"),
        ("gamma=0.9; ent_coef=0.1", "the same settings"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, word: str) -> None:
    """The sentence says what is wrong, and no value is guessed."""
    with pytest.raises(ValueError, match=word):
        read_points(text)


@pytest.mark.parametrize("settings", ["", "gamma=0.9", "learning_rate=1e-05,gamma=0.9"])
def test_a_curve_says_whose_it_is(settings: str) -> None:
    """From the tag alone one knows chart, settings and seed; other tags belong to no member."""
    member = Member(3, settings)
    assert split_member(member.tag("charts/episodic_return")) == ("charts/episodic_return", member)
    assert member.point == ({} if not settings else read_points(settings.replace(",", " "))[0])
    for tag in ("charts/episodic_return", "mail@seed=x", "a@b"):
        assert split_member(tag) == (tag, None)


def test_a_member_is_compared_as_a_run_of_its_own() -> None:
    """Its settings are those of a run that trains it alone; an ordinary run has no members."""
    asked = {"num_envs": 4, "num_seeds": 2, "vmap_sweep": "gamma=0.9,0.99"}
    found = members_asked(asked, 5)
    assert [(member.seed, member.point["gamma"]) for member in found] == [
        (5, 0.9), (6, 0.9), (5, 0.99), (6, 0.99),
    ]  # fmt: skip
    assert settings_alone(asked, found[2]) == {"num_envs": 4, "gamma": 0.99}
    assert members_asked({"num_envs": 4}, 5) == []
    assert [str(member) for member in members_asked({"num_seeds": 2}, 1)] == ["seed 1", "seed 2"]


def test_a_member_that_diverged_counts_no_more_and_stays_so_after_a_resume() -> None:
    """The run's return is the mean over those that still train."""
    good, bad = Member(1, member_settings({"gamma": 0.9})), Member(1, "gamma=0.99")
    episodes = EpisodesByMember([good, bad])
    episodes.by_member[good].add([(10.0, 5)])
    episodes.by_member[bad].add([(2.0, 5)])
    assert episodes.means()["episodic_return"] == 6.0
    episodes.give_up(bad)
    again = EpisodesByMember([good, bad])
    again.load_state_dict(episodes.state_dict())
    assert again.means()["episodic_return"] == 10.0
    assert bad.tag("charts/episodic_return") not in again.curves()
    # A checkpoint of an earlier version names seeds by their number, and no one that was given up.
    older = EpisodesByMember([Member(4)])
    older.load_state_dict({"4": episodes.state_dict()[good.key]})
    assert older.means()["episodic_return"] == 10.0
