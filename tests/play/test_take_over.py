"""Sessions with a policy past the window: scripts, the player's own program, refusals."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.trainer import Trainer, trainers

from mosaic.client.play import PlayClient
from mosaic.config import build
from mosaic.errors import InvalidConfigError
from mosaic.presenting.actor import PERSON, POLICY, actor_of, person_steps
from mosaic.records import RunRecord


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """A daemon for these tests."""
    with trainers(tmp_path_factory.mktemp("take-over"), python_path) as make:
        yield make(warm_start="true").start()


@pytest.fixture(scope="module")
def learned(home: Trainer) -> RunRecord:
    """A policy of FrozenLake, a world that waits for a person and not for a policy."""
    run = home.client.train(
        "dqn",
        env_id="FrozenLake-v1",
        total_timesteps=600,
        learning_starts=100,
        buffer_size=600,
    )
    return home.ended(run.run_id)


@pytest.mark.prove
def test_a_script_takes_turns_with_the_policy(home: Trainer, learned: RunRecord) -> None:
    """`policy` in a script is a step of the policy's; what is recorded says who took which."""
    script = "policy x2\nleft x2\npolicy"
    session = home.ended(home.client.play_with(learned.run_id, script=script).run_id)
    assert session.completed, session.reason
    assert (session.mode, session.parent_run_id) == ("take_over", learned.run_id)
    steps = [step for batch in home.client.steps(session.run_id) for step in batch.steps]
    assert [actor_of(step.info_json) for step in steps] == [
        POLICY, POLICY, PERSON, PERSON, POLICY,
    ]  # fmt: skip
    assert [json.loads(step.action_json) for step in steps[2:4]] == [0, 0]
    episodes = [one for batch in home.client.episodes(session.run_id) for one in batch.episodes]
    assert sum(person_steps(one.info_json) or 0 for one in episodes) == 2
    # A session is no game of a person's: an arena must not count its episodes as one.
    assert home.client.lineage(session.run_id).branches[0].relation == "plays with"


@pytest.mark.prove
def test_a_world_that_waits_for_a_person_does_not_wait_for_the_policy(
    home: Trainer, learned: RunRecord
) -> None:
    """The policy moves by itself; from the moment the person takes over nothing moves but keys."""
    session = home.client.play_with(learned.run_id, fps=20)
    with PlayClient(home.client, session.run_id, patience_s=120) as game:
        assert (game.greeting.has_policy, game.greeting.turn_based) == (True, True)
        assert game.scene.control == POLICY
        game.next_scene()
        game.take_over()
        while game.scene.control == POLICY:
            game.next_scene()
        held = game.scene
        game.hold("left")
        moved = game.next_scene()
        # An episode that was over begins again with the key; one that was not goes a step on.
        assert (moved.episode, moved.step) in {(held.episode, held.step + 1), (held.episode + 1, 0)}
        assert moved.control == PERSON
        game.hand_back()
        while game.scene.control == PERSON:
            game.next_scene()
        game.quit()
    assert home.ended(session.run_id).completed


def test_what_has_no_policy_cannot_be_joined(home: Trainer, tmp_path: Path) -> None:
    """Said before a run is made: what is missing, and for a policy that is gone, where it was."""
    game = home.client.submit(build.play("human", "CartPole-v1", script="left")).run_id
    home.ended(game)
    with pytest.raises(InvalidConfigError, match="has saved no policy yet"):
        home.client.play_with(game)
    config = {
        "artifacts": {},
        "metadata": {
            "worker": {
                "type": "human",
                "config": {
                    "env_id": "CartPole-v1",
                    "extras": {
                        "mode": "take_over",
                        "policy_path": str(tmp_path / "gone"),
                        "policy_worker": "cleenrl",
                    },
                },
            }
        },
    }
    problems = [problem.message for problem in home.client.validate(config)]
    assert len(problems) == 2, problems
    assert any("there is no policy" in text for text in problems)
    assert any("'cleenrl'" in text and "cleanrl" in text for text in problems)
