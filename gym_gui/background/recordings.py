"""Recorded episodes and captured videos as pictures, fetched off the GUI thread."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qtpy.QtCore import QBuffer, QByteArray, QIODevice
from qtpy.QtGui import QImage

from mosaic.client import TrainerClient

MOST_FRAMES = 6000
_QUALITY = 88


@dataclass(frozen=True)
class EpisodeEntry:
    """One recorded episode."""

    episode: int
    length: int
    total_reward: float
    outcome: str
    agent_id: str


@dataclass(frozen=True)
class Picture:
    """One frame of a replay.

    Attributes:
        data: An encoded picture; empty when the step has none.
        caption: What happened in the step.
        grid: A world drawn as text, for workers that send no pictures.
    """

    data: bytes
    caption: str
    grid: tuple[str, ...] = ()
    agent: tuple[int, int] | None = None


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


def step_picture(step: Any, total: float = 0.0) -> Picture:
    """One recorded step as a picture with a caption."""
    end = " · terminated" if step.terminated else " · truncated" if step.truncated else ""
    caption = (
        f"step {step.step} · action {step.action_json or '—'} · "
        f"reward {step.reward:g} · return {total:g}{end}"
    )
    rows, agent = _grid(step.info_json)
    return Picture(bytes(step.frame), caption, rows, agent)


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
    try:
        with contextlib.closing(imageio_ffmpeg.read_frames(str(path))) as reader:
            facts = next(reader)
            pictures = list(_decode(reader, facts))
    except (OSError, StopIteration, ValueError, KeyError) as error:
        raise RuntimeError(f"{path.name} cannot be played: {error}") from None
    return pictures, float(facts.get("fps") or 30.0)


def _decode(reader: Iterator[bytes], facts: dict[str, Any]) -> Iterator[Picture]:
    width, height = facts["size"]
    rate = float(facts.get("fps") or 30.0)
    for number, frame in enumerate(reader):
        if number >= MOST_FRAMES:
            return
        image = QImage(frame, width, height, 3 * width, QImage.Format.Format_RGB888)
        yield Picture(_encode(image), f"{number / rate:.1f} s")


def _encode(image: QImage) -> bytes:
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "JPG", _QUALITY)
    buffer.close()
    return bytes(data)
