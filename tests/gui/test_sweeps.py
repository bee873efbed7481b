"""Sweeps in the window: ranges from the script's arguments, one place for the study."""

import pytest

from gym_gui.forms.sweep_form import SweepForm
from gym_gui.models.form_fields import Field
from gym_gui.models.sweep_draft import SweepDraft, suggested_range
from gym_gui.panels.study_page import verdict_of
from mosaic.config.build import read_config
from mosaic.statistics.intervals import Interval
from mosaic.sweep.plan import SweepPlan
from mosaic.sweep.results import Confirmed, Search, TrialRecord
from mosaic.sweep.space import Choices, read_space

from .conftest import Driver

UNIT = {"low": 0.0, "high": 1.0, "low_open": False, "high_open": False, "choices": ()}
WORDS = {**UNIT, "low": None, "high": None, "choices": ("relu", "tanh")}


@pytest.mark.parametrize(
    ("kind", "default", "bounds", "text"),
    [
        ("float", 2.5e-4, None, "log:2.5e-05..0.0025"),
        ("float", 0.99, UNIT, "0.9..0.999"),
        ("float", 0.2, UNIT, "log:0.02..1"),
        ("int", 128, None, "32..512"),
        ("bool", True, None, "true,false"),
        ("str", "relu", WORDS, "relu,tanh"),
        ("float", 0.0, None, ""),
        ("float | None", None, None, ""),
    ],
)
def test_ranges_are_around_the_defaults_and_within_the_bounds(
    kind: str, default: object, bounds: object, text: str
) -> None:
    """What the form proposes is what the script takes, and `mosaic sweep` accepts it."""
    argument = {"name": "x", "type": kind, "default": default, "range": bounds}
    assert suggested_range(Field.from_argument(argument)) == text
    if text:
        assert set(read_space([f"x={text}"], [argument], "ppo")) == {"x"}


def test_the_form_is_the_command(driver: Driver) -> None:
    """What is ticked and typed is what `mosaic sweep` is asked for; nothing ticked is refused."""
    form = driver.window.launch.form("sweep")
    assert isinstance(form, SweepForm)
    driver.until(lambda: form.ranges.ticks and form.env.names, "the form")
    form.submit()
    assert "tick at least one parameter" in form.banner.text
    form.ranges.ticks["learning_rate"].setChecked(True)
    form.ranges.lines["learning_rate"].setText("log:1e-4..1e-2")
    for line, text in ((form.steps, "10k"), (form.trials, "4"), (form.seeds, "3")):
        line.setText(text)
    form.race.setChecked(True)
    form.confirm.setChecked(True)
    assert form.draft() == SweepDraft(
        worker="cleanrl",
        algo="ppo",
        env_id=form.env.text,
        total_timesteps=10_000,
        trials=4,
        seeds=3,
        race=True,
        confirm=3,
        ranges={"learning_rate": "log:1e-4..1e-2"},
    )
    words = form.draft().words()
    assert words[:2] == ["sweep", "ppo"]
    assert words[-2:] == ["--param", "learning_rate=log:1e-4..1e-2"]
    # A half-filled form comes back.
    content = form.content()
    other = SweepForm(driver.services)
    other.restore(content)
    actor = driver.window.launch.actor_of("cleanrl")
    assert actor is not None
    other.set_actor(actor)
    driver.until(lambda: other.ranges.ticked(), "the ticks are back")
    assert other.draft() == form.draft()
    other.deleteLater()
    # Forms are kept with the home, which other windows share.
    form.ranges.ticks["learning_rate"].setChecked(False)


def test_the_page_says_what_fresh_seeds_said() -> None:
    """The winner's curse is named with its number, and why a sweep stopped early."""
    config = {
        "algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 10, "seed": 1,
        "worker": "cleanrl",
    }  # fmt: skip
    plan = SweepPlan(read_config(config), True, {"num_steps": Choices((1, 2))}, trials=2)
    trial = TrialRecord(number=1, state="complete", value=200.0, params={"num_steps": 2})
    confirmed = (Confirmed(1, 200.0, (150.0, 170.0, 160.0), 160.0, Interval(150.0, 170.0)),)
    search = Search("S", plan, (trial,), halted="died", confirmed=confirmed)
    assert verdict_of(search).splitlines() == [
        "No more trials: died.",
        "Trial 1 with 3 fresh seeds: 160.0 (150.0 to 170.0); the search promised 200.0, 40.0 too "
        "much.",
    ]
    assert search.best == trial
