"""`mosaic play` and `mosaic replay`: play an environment, and replay what was recorded."""

import hashlib
import io
import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mosaic.cli import output
from mosaic.cli.door import in_flags
from mosaic.cli.follow import follow
from mosaic.cli.options import json_option, run_argument
from mosaic.cli.screen import Screen
from mosaic.client import TrainerClient
from mosaic.errors import InvalidArgumentError, InvalidConfigError, MosaicError, NotRecordedError
from mosaic.presenting.actor import PERSON, POLICY
from mosaic.records import RunRecord

if TYPE_CHECKING:
    from mosaic.client.play import PlayClient, Scene
    from mosaic.telemetry.replay import ReplayStep

_ESCAPES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left"}
_NAMES = {b"\r": "enter", b"\n": "enter", b" ": "space", b"\t": "tab"}
_VIDEO_ENDINGS = (".mp4", ".mkv", ".mov", ".avi")
# At a table, one leaves by a key; so many seeds do not end before that.
_MOST_SEEDS = 1000
_LEAVE = (b"\x1b", b"q", b"\x03")


@click.command()
@click.argument("env_id", required=False)
@click.option(
    "--policy",
    "policy_of",
    metavar="RUN",
    help="Let the newest policy of RUN play; Tab takes over and hands back.",
)
@click.option(
    "--against",
    metavar="AGENT",
    help="In games for two: who sits opposite, named as in `mosaic arena`: bot, random, run:ID ….",
)
@click.option("--step", "by_steps", is_flag=True, help="Let time wait for each key.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--fps", type=float, help="Steps per second (default: the environment's).")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read keys from a file instead of the keyboard.",
)
@click.option("--worker", default="", help="Worker to use, if several offer the environment.")
@json_option
def play(
    env_id: str | None,
    policy_of: str | None,
    against: str | None,
    by_steps: bool,
    seed: int,
    fps: float | None,
    script: Path | None,
    worker: str,
    as_json: bool,
) -> int:
    """Play ENV_ID in this terminal, or watch a policy and take over from it.

    Every episode is recorded and can be replayed with `mosaic replay`. In a game for two each seed
    is played twice, once in each order of the seats.
    """
    from mosaic.arena.match import Match
    from mosaic.client.tables import has_tables, invite
    from mosaic.client.taking_over import play_with
    from mosaic.config import build
    from mosaic.workers.algorithms import worker_for

    if bool(env_id) == bool(policy_of):
        raise click.UsageError(
            "give an environment, such as CartPole-v1, or --policy RUN for the policy of a run"
        )
    text = _read_keys(script) if script else ""
    if against and (policy_of or script):
        raise click.UsageError(
            "--against is for a person at the keys: leave out --policy, --script"
        )
    if not script and not sys.stdin.isatty():
        raise MosaicError("there is no keyboard here; give a file of keys: --script FILE")
    with TrainerClient.connect() as trainer:
        try:
            if policy_of:
                record = play_with(
                    trainer, policy_of, worker=worker, seed=seed, script=text, fps=fps
                )
            elif against:
                record = invite(trainer, against, Match(env_id or "", seed, _MOST_SEEDS))
            else:
                player = worker_for("play", worker).worker_type
                config = build.play(player, env_id or "", seed=seed, script=text, fps=fps)
                record = trainer.submit(config)
        except InvalidConfigError as error:
            if env_id and not against and has_tables(env_id):
                raise InvalidArgumentError(
                    f"{env_id} has seats for two; say who sits opposite, such as --against bot"
                ) from None
            raise in_flags(error.problems, {"--env-id": "ENV_ID"}) from None
        if script:
            return follow(trainer, record.run_id, as_json=as_json)
        _at_the_keys(trainer, record, by_steps)
        # Leaving ends the run; it only has to store its last records.
        record = trainer.wait(record.run_id, timeout_s=30.0)
    print(f"{record.run_id} {record.outcome}; replay: mosaic replay {record.run_id}")
    return 0 if record.completed else 1


@click.command()
@run_argument
@click.option("--episode", type=click.IntRange(0), help="Episode number (default: the first).")
@click.option("--video", type=click.Path(path_type=Path), help="Write the episode to an MP4 file.")
@click.option(
    "--fps", type=float, default=10.0, show_default=True, help="Frames per second of the video."
)
@json_option
def replay(run: str, episode: int | None, video: Path | None, fps: float, as_json: bool) -> int:
    """Replay a recorded episode step by step, or save it as a video."""
    from mosaic.telemetry.replay import fetch_episode
    from mosaic.telemetry.video import write_video

    if video:
        _check_video(video)
    with TrainerClient.connect() as trainer:
        record = trainer.get(run)
        chosen = _first_episode(trainer, record.run_id) if episode is None else episode
        steps = fetch_episode(trainer, record.run_id, chosen)
    if video:
        count = write_video(steps, video, fps)
        print(f"{video}: {count} frames of episode {chosen}")
        return 0
    if as_json:
        rows = [
            {
                "step": step.step,
                "action": step.action,
                "reward": step.reward,
                "terminated": step.terminated,
                "truncated": step.truncated,
                "observation": step.observation,
                "info": step.info,
                "frame_sha256": hashlib.sha256(step.frame).hexdigest() if step.frame else None,
            }
            for step in steps
        ]
        output.print_json({"run_id": record.run_id, "episode": chosen, "steps": rows})
        return 0
    table = [
        [str(step.step), str(step.action), f"{step.reward:g}", _decision(step), _end(step)]
        for step in steps
    ]
    output.print_table(("STEP", "ACTION", "REWARD", "DECISION", "END"), table)
    print(f"episode {chosen}: return {sum(step.reward for step in steps):g}, {len(steps)} steps")
    return 0


def _read_keys(script: Path) -> str:
    try:
        return script.read_text()
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{script} is not a text file of keys") from None
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {script}: {error.strerror}") from None


def _check_video(path: Path) -> None:
    """Refuse a place for a video before an episode is fetched."""
    if path.suffix.lower() not in _VIDEO_ENDINGS:
        allowed = ", ".join(_VIDEO_ENDINGS)
        raise InvalidArgumentError(f"{path} cannot be a video; its name must end in {allowed}")
    if not path.absolute().parent.is_dir():
        raise InvalidArgumentError(f"there is no folder {path.absolute().parent}")


def _end(step: "ReplayStep") -> str:
    return "terminated" if step.terminated else "truncated" if step.truncated else ""


def _decision(step: "ReplayStep") -> str:
    """The decision of an agent that records one, or who acted; the rest is in --json."""
    said = ("decision", "intention", "actor")
    return " ".join(str(step.info[name]) for name in said if name in step.info)


def _first_episode(trainer: TrainerClient, run_id: str) -> int:
    for batch in trainer.steps(run_id):
        if batch.steps:
            return int(batch.steps[0].episode)
    raise NotRecordedError(f"run {run_id} has recorded no steps")


def _at_the_keys(trainer: TrainerClient, record: RunRecord, by_steps: bool) -> None:
    """Show the game in the terminal and send it the keys that are pressed."""
    from mosaic.client.play import PlayClient
    from mosaic.errors import PlayConnectionError

    with PlayClient(trainer, record.run_id) as game, _raw_keyboard() as keyboard:
        legend = "  ".join(f"{key}: {meaning}" for key, meaning in game.greeting.keys.items())
        swap = "Tab: take over, hand back; " if game.greeting.has_policy else ""
        print(f"keys go to the game — {legend}  ({swap}q or Esc leaves)\r")
        screen = Screen(sys.stdout)
        if by_steps:
            game.set_pace(0)
        try:
            while True:
                # Nothing follows a picture of a game that waits for its player: it must be seen.
                waits = game.scene.waits
                screen.show(_picture(game.scene), always=waits)
                pressed = _pressed(keyboard, None if waits else 0.0)
                if pressed == "leave":
                    game.quit()
                    return
                if pressed == "tab" and game.greeting.has_policy:
                    _swap(game)
                    continue
                if pressed or not waits:
                    game.hold(*([pressed] if pressed else []))
                game.next_scene()
        except PlayConnectionError:
            return


def _swap(game: "PlayClient") -> None:
    """Take over from the policy or hand back, and wait until the game says so."""
    was = game.scene.control
    game.hand_back() if was == PERSON else game.take_over()
    # The worker answers with its next step; a step of the one before may still be on its way.
    while game.scene.control == was:
        game.next_scene()


def _picture(scene: "Scene") -> str:
    """A scene as text: the frame in coloured blocks, and a line of numbers."""
    import numpy as np
    from PIL import Image

    from mosaic.fastlane.recorder import ansi_picture

    size = shutil.get_terminal_size()
    picture = ""
    if scene.frame:
        pixels = np.asarray(Image.open(io.BytesIO(scene.frame)).convert("RGB"))
        picture = ansi_picture(pixels, size.columns, size.lines - 4)
    who = "   the policy plays" if scene.control == POLICY else ""
    soon = f"   starts in {scene.starts_in}" if scene.starts_in else ""
    over = "— over, any key for the next" if scene.over else ""
    return f"{picture}\n{scene.caption}{who}{soon} {over}{scene.problem}"


@contextmanager
def _raw_keyboard() -> Iterator[int]:
    """The terminal without echo and line buffering; restored afterwards."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setraw(keyboard)
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _pressed(keyboard: int, patience_s: float | None) -> str:
    """The name of the newest key, `leave`, or nothing."""
    ready, _, _ = select.select([keyboard], [], [], patience_s)
    if not ready:
        return ""
    # Everything that was typed since the last step; only the newest key counts, so that a key held
    # down does not keep acting after it was released.
    typed = os.read(keyboard, 64)
    for code, name in _ESCAPES.items():
        if typed.endswith(code):
            return name
    last = typed[-1:]
    if last in _LEAVE:
        return "leave"
    return _NAMES.get(last, last.decode(errors="replace"))
