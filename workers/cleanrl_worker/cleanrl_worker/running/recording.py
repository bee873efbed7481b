"""What happens inside the episodes of an evaluation: a file and a video for each.

`NAME.json` holds, step by step, the action, the reward, what the policy considered and the numbers
of the environment's `info`; `NAME.mp4` holds the picture before each step and the last one. So
picture `i` is what the policy saw when it chose action `i`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import numpy as np

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, thought_of
from cleanrl_worker.kit.types import Array, Batch, Env
from mosaic.system import atomic

# Several minutes of play. Beyond it an episode is neither kept in memory nor looked at.
MOST_STEPS = 3000
_USUAL_RATE = 30
# Smaller pictures, such as grids of a few pixels, are enlarged until people can see them.
_SMALLEST = 240
# Enough digits for a chart; all of them would double the file.
_DIGITS = 6


class _Diary:
    """One episode as it is played."""

    def __init__(self) -> None:
        self.actions: list[object] = []
        self.rewards: list[float] = []
        self.scores: list[list[float | None]] = []
        self.values: list[float | None] = []
        self.terms: dict[str, list[float]] = {}
        self.kind = ""

    def note_info(self, info: Mapping[str, object]) -> None:
        """Keep the numbers of a step's `info`; those that begin later were 0 before."""
        step = len(self.rewards)
        for name, value in info.items():
            number = _number(value)
            if number is not None:
                line = self.terms.setdefault(name, [])
                line += [0.0] * (step - len(line))
                line.append(number)


class EpisodeRecorder:
    """Writes every episode of a batch of environments.

    Args:
        envs: The environments, built inside `kit.envs.drawn` if pictures are wanted.
        policy: Who acts.
        folder: Where the files go.
    """

    def __init__(self, envs: Batch, policy: Policy, folder: Path) -> None:
        self._envs, self._policy, self._folder = envs, policy, folder
        # None for an environment that plays on but has played its share.
        self._diaries: list[_Diary | None] = [None] * envs.num_envs
        self._films: list[_Film | None] = [None] * envs.num_envs
        self._rate = _rate(envs)
        watch = getattr(envs, "watch", None)
        self._sees_inside = watch is not None
        folder.mkdir(parents=True, exist_ok=True)
        if watch is not None:
            watch(self._seen)

    def begin(self, index: int) -> None:
        """An environment was reset: everything so far belongs to an earlier episode."""
        self._discard(index)
        self._diaries[index] = _Diary()
        self._draw(index)

    def chosen(self, actions: Array) -> None:
        """The policy has chosen these actions."""
        thought = thought_of(self._policy)
        for index, diary in enumerate(self._diaries):
            if diary is None or len(diary.actions) >= MOST_STEPS:
                continue
            diary.actions.append(actions[index].tolist())
            if thought is not None:
                diary.kind = thought.kind
                diary.scores.append(_rounded(thought.scores[index]))
                if thought.value is not None:
                    diary.values.append(_finite(float(thought.value[index])))

    def happened(self, rewards: Array, over: Array) -> None:
        """The environments have made their step."""
        for index, diary in enumerate(self._diaries):
            if diary is None or len(diary.rewards) >= MOST_STEPS:
                continue
            diary.rewards.append(_finite(float(rewards[index])) or 0.0)
            # Others have no picture of the last step: it already shows the next episode.
            if not self._sees_inside and not over[index]:
                self._draw(index)

    def ended(self, index: int, name: str, about: Mapping[str, object]) -> None:
        """Write the episode that has just ended in an environment.

        Args:
            index: Which environment.
            name: Of the files, without ending.
            about: What else to write down, such as the return.
        """
        diary, film = self._diaries[index], self._films[index]
        assert diary is not None, "an episode ends after it began"
        self._diaries[index] = None
        video = ""
        if film is not None:
            video = film.finish(self._folder / f"{name}.mp4")
            self._films[index] = None
        content = {
            "schema_version": 1,
            **about,
            "video": video,
            "rate": self._rate,
            "actions": diary.actions,
            "rewards": diary.rewards,
            "scores_are": diary.kind,
            "scores": diary.scores,
            "values": diary.values,
            "terms": diary.terms,
        }
        atomic.write_text(self._folder / f"{name}.json", json.dumps(content, allow_nan=False))

    def close(self) -> None:
        """Throw away what was begun and has not ended."""
        for index in range(len(self._films)):
            self._discard(index)

    def _discard(self, index: int) -> None:
        film, self._films[index] = self._films[index], None
        if film is not None:
            film.discard()

    def _seen(self, index: int, info: Mapping[str, object]) -> None:
        diary = self._diaries[index]
        if diary is not None and len(diary.rewards) < MOST_STEPS:
            diary.note_info(info)
            self._draw(index)

    def _draw(self, index: int) -> None:
        picture = _picture(self._envs, index)
        if picture is None:
            return
        film = self._films[index]
        if film is None:
            unfinished = self._folder / f".unfinished-{index}.mp4"
            film = self._films[index] = _Film(unfinished, self._rate)
        film.add(picture)


class _Film:
    """One video, written as it is played."""

    def __init__(self, path: Path, rate: float) -> None:
        try:
            import imageio_ffmpeg
        except ModuleNotFoundError:
            raise UsageError(
                "Recording videos needs imageio-ffmpeg: pip install imageio-ffmpeg, or leave the "
                "videos out."
            ) from None
        self._open = imageio_ffmpeg.write_frames
        self._path, self._rate = path, rate
        self._writer: Generator[None, object, None] | None = None

    def add(self, picture: Array) -> None:
        factor = max(1, -(-_SMALLEST // max(picture.shape[:2])))
        # Even sides, as the format wants them: by repeating the last row and column.
        rows, columns = (side * factor % 2 for side in picture.shape[:2])
        large = picture if factor == 1 else picture.repeat(factor, 0).repeat(factor, 1)
        if rows or columns:
            large = np.pad(large, ((0, rows), (0, columns), (0, 0)), mode="edge")
        if self._writer is None:
            # The quickest setting and one thread: recording must not take the training's time.
            self._writer = self._open(
                str(self._path),
                (large.shape[1], large.shape[0]),
                fps=self._rate,
                macro_block_size=1,
                output_params=["-preset", "ultrafast", "-threads", "1"],
            )
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(large, np.uint8))

    def finish(self, path: Path) -> str:
        """Close the video under its final name, which is returned; empty if nothing was drawn."""
        if self._writer is None:
            return ""
        self._writer.close()
        self._path.replace(path)
        return path.name

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.close()
            self._path.unlink(missing_ok=True)


def _picture(envs: Batch, index: int) -> Array | None:
    """What an environment shows now; None when it draws nothing."""
    each: Sequence[Env] = getattr(envs, "envs", ())
    if hasattr(envs, "watch"):
        env = each[index]
        found = env.render() if env.render_mode == "rgb_array" else None
    else:
        pictures = envs.render() if hasattr(envs, "render") else []
        found = pictures[index] if index < len(pictures) else None
    return found if isinstance(found, np.ndarray) and found.ndim == 3 else None


def _rate(envs: Batch) -> float:
    """Pictures a second, as the environment says."""
    each = getattr(envs, "envs", None)
    rate = each[0].metadata.get("render_fps") if each else None
    return float(rate) if isinstance(rate, int | float) and rate > 0 else _USUAL_RATE


def _number(value: object) -> float | None:
    """A plain finite number; None for anything else, truth values included."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return None
    return _finite(float(value))


def _finite(number: float) -> float | None:
    """The number as a file holds it; None for what JSON has no word for."""
    return round(number, _DIGITS) if math.isfinite(number) else None


def _rounded(row: Array) -> list[float | None]:
    return [_finite(float(value)) for value in np.atleast_1d(row).reshape(-1)]
