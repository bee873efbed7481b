"""Recorded episodes and captured videos as pictures, fetched off the GUI thread."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mosaic.client import TrainerClient
from mosaic.presenting.actor import actor_of, person_steps
from mosaic.presenting.mind import Mind, read_mind
from mosaic.records import StepRecord

# Several minutes of play; many more would not fit into memory as pictures.
MOST_FRAMES = 6000
# Captured episodes are short; a decoder that takes longer is stuck on a damaged file.
_DECODE_LIMIT_S = 120
_RATE = re.compile(r"([\d.]+) fps")
_END_OF_PICTURE = b"\xff\xd9"


@dataclass(frozen=True)
class EpisodeEntry:
    """One recorded episode."""

    episode: int
    length: int
    total_reward: float
    outcome: str
    agent_id: str
    person_steps: int | None = None
    """how many of the steps a person took; None where the run does not say"""


@dataclass(frozen=True)
class Picture:
    """One frame of a replay.

    Attributes:
        data: An encoded picture; empty when the step has none.
        caption: What happened in the step.
        grid: A world drawn as text, for workers that send no pictures.
        mind: What the agent thought; None for agents that tell nothing of it.
    """

    data: bytes
    caption: str
    grid: tuple[str, ...] = ()
    agent: tuple[int, int] | None = None
    mind: Mind | None = None


def list_episodes(client: TrainerClient, run_id: str) -> list[EpisodeEntry]:
    """The episodes a run has recorded, oldest first."""
    found = []
    for batch in client.episodes(run_id):
        for episode in batch.episodes:
            if episode.outcome != "summary":
                found.append(
                    EpisodeEntry(
                        episode.episode,
                        episode.length,
                        episode.total_reward,
                        episode.outcome,
                        episode.agent_id,
                        person_steps(episode.info_json),
                    )
                )
    return found


def read_episode(client: TrainerClient, run_id: str, episode: int) -> list[Picture]:
    """The steps of one episode, each with its picture."""
    pictures: list[Picture] = []
    total = 0.0
    for batch in client.steps(run_id, episode=episode):
        for step in batch.steps:
            total += step.reward
            pictures.append(step_picture(step, total))
            if len(pictures) >= MOST_FRAMES:
                return pictures
    return pictures


def step_picture(step: StepRecord, total: float = 0.0) -> Picture:
    """One recorded step as a picture with a caption."""
    end = " · terminated" if step.terminated else " · truncated" if step.truncated else ""
    actor = actor_of(step.info_json)
    who = f" by the {actor}" if actor else ""
    caption = (
        f"step {step.step} · action {step.action_json or '—'}{who} · "
        f"reward {step.reward:g} · return {total:g}{end}"
    )
    rows, agent = _grid(step.info_json)
    return Picture(step.frame, caption, rows, agent, read_mind(step.info_json))


def _grid(text: str) -> tuple[tuple[str, ...], tuple[int, int] | None]:
    if '"grid"' not in text:
        return (), None
    try:
        grid = json.loads(text)["grid"]
        agent = grid.get("agent")
        return tuple(map(str, grid["rows"])), (int(agent[0]), int(agent[1])) if agent else None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return (), None


def read_video(path: Path) -> tuple[list[Picture], float]:
    """A captured video as pictures, and its frames a second.

    Raises:
        RuntimeError: It cannot be decoded.
    """
    try:
        import imageio_ffmpeg
    except ImportError:
        raise RuntimeError("videos need imageio-ffmpeg; run: make setup-gui") from None
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "info", "-nostdin", "-i", str(path)]
    command += ["-frames:v", str(MOST_FRAMES), "-f", "image2pipe", "-c:v", "mjpeg", "-q:v", "3"]
    try:
        done = subprocess.run(
            [*command, "-"], capture_output=True, timeout=_DECODE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{path.name} cannot be played: {error}") from None
    said = done.stderr.decode(errors="replace")
    if done.returncode or not done.stdout:
        last = said.strip().splitlines()[-1:] or ["no pictures in it"]
        raise RuntimeError(f"{path.name} cannot be played: {last[0]}")
    match = _RATE.search(said)
    rate = float(match[1]) if match else 30.0
    # A JPEG's own data never holds its end mark, so the stream can be cut there.
    pieces = done.stdout.split(_END_OF_PICTURE)
    pictures = [
        Picture(piece + _END_OF_PICTURE, f"{number / rate:.1f} s")
        for number, piece in enumerate(pieces[:-1])
    ]
    return pictures, rate
