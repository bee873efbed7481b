"""A tap on a training loop: publishes frames while it is watched, costs next to nothing else."""

import math
import sys
import time
from collections.abc import Callable
from typing import Protocol, SupportsFloat, TypeGuard

from mosaic.fastlane import FastLaneError, FrameMetrics, LaneWriter, as_rgb, shrink, tile
from mosaic.fastlane.cameras import Camera, Picture, camera_for, prepare_rendering
from mosaic.fastlane.frame import Pixels
from mosaic.fastlane.lanes import book
from mosaic.fastlane.pacing import FramePacer, waited_ns
from mosaic.fastlane.settings import Settings, read_settings, say_once

# A loop may become a thousand times slower from one step to the next (evaluation, a reset): not so
# many steps without a look that a viewer waits for seconds.
_MOST_STEPS_BETWEEN_LOOKS = 256
# Seldom while unwatched, so that looking costs next to nothing, but often enough that a new viewer
# sees its first frame at once. While watched, looks must be closer together than frames.
_LOOK_UNWATCHED_NS = 20_000_000
_LOOK_WATCHED_NS = 4_000_000
_CLAIM_EVERY_NS = 1_000_000_000
_RATE_WINDOW_NS = 1_000_000_000
# What failed to render will fail again; trying costs time that training could use.
_RETRY_AFTER_FAILURE_NS = 5_000_000_000
_RETURN_SMOOTHING = 0.1
_NOBODY = Settings(run_id="", mode="off")


class _Row(Protocol):
    """One number for each environment: a list, or an array of any library."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> object: ...


class FrameTap:
    """Shows the environments of a training loop to everyone who watches the run.

    Call `step` after every step of the (vector) environment. Nearly always that is one
    subtraction and one comparison; every few milliseconds it looks at the clock and at whether
    a reader is there, and renders only when one is and a frame is due. Without a run id in the
    environment, or with mode `off`, it does nothing at all.

    Args:
        source: What to show: a list of Gymnasium environments, one (vector) environment, any
            object with `render()`, or a function returning a picture or a list of pictures.
        num_envs: How many environments one call of `step` steps.
        settings: By default those of the environment variables.
    """

    def __init__(
        self, source: object = None, *, num_envs: int = 1, settings: Settings | None = None
    ) -> None:
        self.settings = settings or read_settings() or _NOBODY
        self.whole = num_envs > 1
        self.lane: LaneWriter | None = None
        self.looked_at = 0
        self.look_gap = 0
        self.enrolled_at = 0
        self.watched = False
        self._num_envs = num_envs
        self._camera = camera_for(source) if source is not None else None
        shows = self._camera is not None and self.settings is not _NOBODY
        # So large that it is never used up: an unused tap stays at one subtraction a step.
        self._steps_left = 0 if shows else sys.maxsize
        self._stride = 0
        self._claim_at = 0
        self._pacer = FramePacer(int(self.settings.interval_ms * 1e6), self.settings.share)
        self._rolling_return = math.nan
        self._rate = 0.0
        self._rate_since = (0, 0)
        self._failing = False

    def step(self, reward: object = None) -> None:
        """Say that every environment has taken a step.

        Args:
            reward: The reward, or one for each environment; read only when a frame is due.
        """
        self._steps_left -= 1
        if self._steps_left < 0:
            assert self._camera is not None
            self._stride = self.look(self._stride + 1, self._camera, reward)
            self._steps_left = self._stride

    def episode(self, episode_return: float) -> None:
        """Say that an episode has ended, for the return shown with the frames."""
        value = _as_number(episode_return, 0)
        if math.isfinite(value):
            known = value if math.isnan(self._rolling_return) else self._rolling_return
            self._rolling_return = known + _RETURN_SMOOTHING * (value - known)

    def close(self) -> None:
        """Stop showing; readers see that the writer is gone."""
        book.release(self)
        self.watched = False
        # A closed environment may still be stepped by mistake; then there is nothing to look at.
        self._steps_left = sys.maxsize

    def look(self, steps_taken: int, camera: Camera, reward: object) -> int:
        """Look at the clock and the readers, and publish a frame if one is due.

        Args:
            steps_taken: Calls of `step` since the last look.
            camera: Renders the environments it is asked for.
            reward: As in `step`.

        Returns:
            How many steps may pass without another look.
        """
        now = time.monotonic_ns()
        self.look_gap, self.looked_at = now - self.looked_at, now
        book.steps += steps_taken * self._num_envs
        if now - self._rate_since[0] >= _RATE_WINDOW_NS:
            self._measure_rate(now)
        if self.lane is None and now >= self._claim_at:
            self._claim(now)
        self._notice_readers(now)
        if self.watched and now >= self._pacer.due_at:
            waited = waited_ns()
            if self._pacer.earned(now, waited):
                self._publish(camera, reward, now, waited)
        return self._next_stride(steps_taken, now)

    def _notice_readers(self, now: int) -> None:
        watched = self.lane is not None and self.lane.watched(now)
        if watched and not self.watched:
            # Not before: a run that is never watched keeps its environment variables as they are.
            prepare_rendering()
            self._divide_share()
            self._pacer.begin(now)
        self.watched = watched

    def _next_stride(self, steps_taken: int, now: int) -> int:
        wanted = _LOOK_UNWATCHED_NS
        if self.watched:
            wanted = min(_LOOK_WATCHED_NS, max(0, self._pacer.due_at - now))
        # Growing slowly and shrinking at once: a loop that has become slow is noticed at its
        # next look, which may be at most the present stride away.
        stride = wanted * steps_taken // max(self.look_gap, 1)
        return max(0, min(stride, 2 * steps_taken, _MOST_STEPS_BETWEEN_LOOKS) - 1)

    def _claim(self, now: int) -> None:
        self._claim_at = now + _CLAIM_EVERY_NS
        try:
            self.lane = book.claim(self, now)
        except (FastLaneError, OSError) as error:
            say_once(f"no live frames: {error}")
            self._claim_at = now + _RETRY_AFTER_FAILURE_NS

    def _measure_rate(self, now: int) -> None:
        since, steps = self._rate_since
        if since:
            self._rate = (book.steps - steps) * 1e9 / (now - since)
        self._rate_since = (now, book.steps)
        if self.watched:
            self._divide_share()

    def _divide_share(self) -> None:
        """The share is the run's: environments that are shown side by side divide it."""
        if self.lane is not None:
            self._pacer.share = self.settings.share / self.lane.lane_count()

    def _publish(self, camera: Camera, reward: object, now: int, waited: int) -> None:
        assert self.lane is not None
        try:
            self.lane.publish(self._picture(camera), self._metrics(reward))
            if self._failing:
                self.lane.notice("")
                self._failing = False
            self._pacer.rendered(now, time.monotonic_ns(), waited, waited_ns())
        except Exception as error:
            self._failed(error, now)

    def _picture(self, camera: Camera) -> Pixels:
        settings = self.settings
        if not self.whole:
            # A tile of a grid has its share of the picture's size.
            limit = settings.grid_limit if settings.mode == "grid" else 1
            return self._fitted(camera((0,))[0], limit)
        if settings.mode == "grid":
            count = min(settings.grid_limit, self._num_envs)
            return tile([self._fitted(picture, count) for picture in camera(range(count))])
        return self._fitted(camera((min(settings.slot, self._num_envs - 1),))[0], 1)

    def _fitted(self, picture: Picture, tiles: int) -> Pixels:
        return shrink(as_rgb(picture), self.settings.max_dim // math.ceil(math.sqrt(tiles)))

    def _metrics(self, reward: object) -> FrameMetrics:
        return FrameMetrics(
            last_reward=_as_number(reward, self.settings.slot if self.whole else 0),
            rolling_return=self._rolling_return,
            step_rate_hz=self._rate,
            step=book.steps,
            capped=self._pacer.capped,
        )

    def _failed(self, error: Exception, now: int) -> None:
        """Rendering is a courtesy: whatever goes wrong in it is said, and training continues."""
        text = str(error) if isinstance(error, FastLaneError) else f"rendering failed: {error!r}"
        text = " ".join(text.split())
        say_once(f"{text}. Training continues without live frames")
        self._failing = True
        self._pacer.hold(now + _RETRY_AFTER_FAILURE_NS)
        if self.lane is not None:
            self.lane.notice(text)

    def __reduce__(self) -> "tuple[Callable[[Settings, int], FrameTap], tuple[Settings, int]]":
        """A copied or unpickled environment starts without a lane; two cannot share one."""
        return _copy_of, (self.settings, self._num_envs)


def _copy_of(settings: Settings, num_envs: int) -> FrameTap:
    return FrameTap(settings=settings, num_envs=num_envs)


def _is_row(reward: object) -> TypeGuard[_Row]:
    return getattr(reward, "ndim", 0) == 1 or isinstance(reward, list | tuple)


def _as_number(reward: object, position: int) -> float:
    try:
        value = reward[min(position, len(reward) - 1)] if _is_row(reward) else reward
        return float(value) if isinstance(value, SupportsFloat) else math.nan
    except (TypeError, ValueError, IndexError):
        return math.nan
