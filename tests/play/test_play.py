"""Human play: keys, scripts, live games, and that a recorded game is replayed exactly."""

import io
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from human_worker.keys import KeyScriptError, UnknownKeyError, key_map, parse_script
from human_worker.live import COUNTDOWN_S
from mosaic.client.play import PlayClient, read_line, read_scene
from mosaic.config import build
from mosaic.errors import InvalidConfigError, MosaicError, NotRecordedError, PlayConnectionError
from mosaic.telemetry.replay import fetch_episode, read_episode
from mosaic.telemetry.video import write_video
from mosaic.workers.player_socket import PlayerSocket

KEYS = Path(__file__).parents[1] / "data" / "keys.txt"


def played_again(env_id: str, seed: int, actions: list[Any]) -> tuple[list[float], list[Any]]:
    """The same actions in the same environment, without MOSAIC."""
    env = gymnasium.make(env_id, render_mode="rgb_array")
    env.reset(seed=seed)
    rewards, frames = [], []
    for action in actions:
        rewards.append(float(env.step(action)[1]))
        frames.append(env.render())
    env.close()
    return rewards, frames


def test_a_scripted_game_is_recorded_and_replayed_exactly(trainer: Trainer, tmp_path: Path) -> None:
    """`mosaic play` with a script: the replay has the same rewards and the same pixels."""
    record = trainer.client.submit(
        build.play("human", "CartPole-v1", seed=3, script=KEYS.read_text())
    )
    ended = trainer.ended(record.run_id)
    assert ended.outcome == "completed", ended.reason

    steps = fetch_episode(trainer.client, record.run_id, 0)
    rewards, frames = played_again("CartPole-v1", 3, [s.action for s in steps])
    assert steps[-1].terminated
    assert [s.reward for s in steps] == rewards
    for step, frame in zip(steps, frames, strict=True):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(step.frame))), frame)
    assert read_episode(Path(ended.run_dir), 0) == steps

    [batch] = trainer.client.episodes(record.run_id)
    assert batch.episodes[0].total_reward == sum(rewards)
    assert batch.episodes[0].seed == 3
    assert write_video(steps, tmp_path / "game.mp4") == len(steps)
    assert (tmp_path / "game.mp4").stat().st_size > 1000
    with pytest.raises(
        NotRecordedError, match="episode 99 is not recorded: the run has recorded episodes 0 to"
    ):
        fetch_episode(trainer.client, record.run_id, 99)
    with pytest.raises(NotRecordedError, match="the store holds episodes 0 to"):
        read_episode(Path(ended.run_dir), 99)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello\n", "not a game"),
        (b"[1]\n", "not a game"),
        (b'{"episode": "first"}\n', "episode 'first', not a number"),
        (b'{"frame": "a"}\n', "broken picture"),
    ],
)
def test_what_is_no_game_is_named(line: bytes, reason: str) -> None:
    """A program that answers on the game's socket but is no game ends in a sentence."""
    with pytest.raises(PlayConnectionError, match=reason):
        read_scene(read_line(line))


def test_a_live_game_is_played_over_its_socket(trainer: Trainer) -> None:
    """A window or terminal presses keys, sees each frame, leaves and comes back, and quits."""
    record = trainer.client.submit(
        build.play("human", "FrozenLake-v1", env_kwargs={"is_slippery": False})
    )
    trainer.wait_for(record.run_id, "EXEC")
    with PlayClient(trainer.client, record.run_id) as player:
        assert player.greeting.turn_based
        assert player.greeting.keys["down"] == "move down"
        first = player.scene.frame
        player.hold("down")
        assert player.next_scene().step == 1
        assert player.scene.frame != first
        player.hold("jump")
        assert "the key 'jump' does nothing here" in player.next_scene().problem
    with PlayClient(trainer.client, record.run_id) as player:
        assert player.scene.step == 1, "the game waited"
        for key in ("down", "right", "down", "right", "right"):
            player.hold(key)
            scene = player.next_scene()
        assert scene.over
        assert scene.total == 1.0
        player.quit()
    assert trainer.ended(record.run_id).outcome == "completed"
    steps = fetch_episode(trainer.client, record.run_id, 0)
    assert [s.action for s in steps] == [1, 1, 2, 1, 2, 2]
    assert [s.info["keys"] for s in steps][:2] == [["down"], ["down"]]


def test_a_real_time_game_goes_on_while_a_key_is_held(trainer: Trainer) -> None:
    """In a world that does not wait, the held key counts at every step until the end."""
    record = trainer.client.submit(build.play("human", "CartPole-v1", fps=200))
    trainer.wait_for(record.run_id, "EXEC")
    with PlayClient(trainer.client, record.run_id) as player:
        assert not player.greeting.turn_based
        player.hold("right")
        while not player.next_scene().over:
            pass
        player.quit()
    trainer.ended(record.run_id)
    actions = [s.action for s in fetch_episode(trainer.client, record.run_id, 0)]
    assert actions[-5:] == [1] * 5


def test_time_runs_after_a_countdown_and_stands_still_when_asked(trainer: Trainer) -> None:
    """No step is lost while the player finds the keys, and none while the player is elsewhere."""
    record = trainer.client.submit(build.play("human", "CartPole-v1", fps=100))
    trainer.wait_for(record.run_id, "EXEC")
    with PlayClient(trainer.client, record.run_id) as player:
        counted = [player.scene]
        while counted[-1].step == 0:
            counted.append(player.next_scene())
        seconds = [scene.starts_in for scene in counted if scene.step == 0]
        assert (seconds[0], seconds[-1]) == (3, 0)
        assert seconds == sorted(seconds, reverse=True)
        while not player.scene.over:
            player.next_scene()
        assert player.scene.waits, "the end stays until a key is pressed"
        player.hold_time(True)
        player.hold("reset")
        assert player.next_scene().step == 0
        # Longer than the countdown, which must not run either.
        time.sleep(COUNTDOWN_S + 0.5)
        player.set_pace(0)
        scene = player.next_scene()
        while not scene.waits:
            assert (scene.step, scene.starts_in > 0) == (0, True)
            scene = player.next_scene()
        player.hold_time(False)
        for step in (1, 2):
            player.hold("left")
            assert player.next_scene().step == step, "one key, one step"
            player.hold()
        player.quit()
    trainer.ended(record.run_id)
    assert [s.action for s in fetch_episode(trainer.client, record.run_id, 1)] == [0, 0]


def test_a_player_whose_terminal_did_not_keep_up_can_leave(tmp_path: Path) -> None:
    """Pictures that no one has read do not swallow the wish to leave."""
    with PlayerSocket(tmp_path) as game:
        terminal = socket.socket(socket.AF_UNIX)
        terminal.connect(json.loads((tmp_path / "play.json").read_text())["socket"])
        until(lambda: game.next_keys(0.01) is not None, "the player is there")
        # More than a socket takes: the game stands still in the middle of it.
        playing = threading.Thread(target=game.tell, args=({}, bytes(4 * 1024 * 1024)))
        playing.start()
        terminal.sendall(b'{"keys": ["left"]}\n{"quit": true}\n')
        terminal.close()
        playing.join(PATIENCE_S)
        assert not playing.is_alive()
        assert game.gone


def test_an_environment_that_cannot_be_played_says_why(trainer: Trainer) -> None:
    """A wrong name is refused with the one that was meant; a version that is gone ends the run."""
    with pytest.raises(InvalidConfigError, match="did you mean 'CartPole-v1'"):
        trainer.client.submit(build.play("human", "CartPol-v1", script="left"))
    assert trainer.run_ids() == []
    record = trainer.client.submit(build.play("human", "CartPole-v99", script="left"))
    ended = trainer.ended(record.run_id)
    assert ended.outcome == "failed"
    assert "CartPole" in ended.reason


def test_a_script_that_cannot_be_read_is_refused_before_it_starts(trainer: Trainer) -> None:
    """The line that makes no sense is named, and no run is made."""
    with pytest.raises(InvalidConfigError) as refused:
        trainer.client.submit(build.play("human", "CartPole-v1", script="left\nleft five times\n"))
    [problem] = refused.value.problems
    assert problem.pointer == "/metadata/worker/config/extras/script"
    assert "line 2: 'left five times' is not a key" in problem.message
    assert trainer.run_ids() == []


def test_a_live_viewer_sees_a_game_while_it_is_played(trainer: Trainer) -> None:
    """Following a run shows its steps as they happen and ends when the run does."""
    script = "left\nright\n" * 40
    record = trainer.client.submit(build.play("human", "MountainCar-v0", script=script, fps=60))
    trainer.wait_for(record.run_id, "EXEC")
    seen = [s.seq for b in trainer.client.steps(record.run_id, follow=True) for s in b.steps]
    assert seen == list(range(1, 81))
    until(lambda: trainer.client.get(record.run_id).state == "TERM", "the run ends")


@pytest.mark.parametrize(
    ("env_id", "choices", "bounds", "keys", "action"),
    [
        ("CartPole-v1", 2, None, ["right"], 1),
        ("MountainCar-v0", 3, None, [], 1),
        ("Taxi-v4", 6, None, ["p"], 4),
        ("SomethingNew-v0", 3, None, ["2"], 2),
        ("Pendulum-v1", None, ([-2.0], [2.0]), ["left"], [-2.0]),
        ("Pendulum-v1", None, ([-2.0], [2.0]), [], [0.0]),
        ("LunarLanderContinuous-v3", None, ([-1.0] * 2, [1.0] * 2), ["left", "up"], [-1.0, 1.0]),
    ],
)
def test_keys_mean_what_a_player_expects(
    env_id: str, choices: int | None, bounds: Any, keys: list[str], action: Any
) -> None:
    """Arrows steer, digits choose, no key is the idle action, keys combine on vectors."""
    assert key_map(env_id, choices, bounds).action(keys) == action


@pytest.mark.parametrize(
    ("env_id", "choices", "bounds", "names", "key", "words"),
    [
        ("CartPole-v1", 2, None, (), "left", "push left"),
        ("MiniGrid-Empty-5x5-v0", 7, None, (), "p", "pick up"),
        ("ALE/Pong-v5", 6, None, ("noop", "fire"), "1", "fire"),
        ("SomethingNew-v0", 3, None, (), "2", "action 2"),
        ("Pendulum-v1", None, ([-2.0], [2.0]), (), "left", "control 1 at -2"),
        ("Pendulum-v1", None, ([-2.0], [2.0]), (), "space", "nothing"),
    ],
)
def test_keys_are_named_by_what_they_do(
    env_id: str, choices: int | None, bounds: Any, names: tuple[str, ...], key: str, words: str
) -> None:
    """A player reads what a key does, not the number of an action, wherever that is known."""
    assert key_map(env_id, choices, bounds, names=names).meanings[key] == words


def test_key_combinations_of_the_environment_win() -> None:
    """An Atari game's own combinations are used as it proposes them."""
    offered = {frozenset({"up"}): 2, frozenset({"up", "space"}): 10}
    keys = key_map("ALE/Pong-v5", 18, offered=offered)
    assert keys.action(["space", "up"]) == 10
    assert keys.action(["up"]) == 2
    assert keys.action(["space"]) == 0, "means nothing alone"


def test_mistakes_in_keys_are_answered_with_what_works() -> None:
    """An unknown key, an unreadable line and an unplayable space each get a sentence."""
    with pytest.raises(UnknownKeyError, match=r"did you mean 'left'"):
        key_map("CartPole-v1", 2).action(["lfet"])
    with pytest.raises(KeyScriptError, match="line 2: 'left five times' is not a key"):
        parse_script("left\nleft five times\n")
    with pytest.raises(KeyScriptError, match="no keys"):
        parse_script("# nothing\n")
    with pytest.raises(MosaicError, match="cannot be played with keys"):
        key_map("Ant-v5", None, ([-1.0] * 8, [1.0] * 8))


def test_a_script_reads_repeats_and_comments() -> None:
    """The script's small language."""
    assert parse_script("left x2 # lean\n\n# pause\nidle\nleft+UP 1\n") == [
        ("left",), ("left",), ("idle",), ("left", "up"),
    ]  # fmt: skip
