"""What a run leaves behind, as it is streamed: logs, metrics, frames, steps, episodes."""

from dataclasses import dataclass
from typing import Annotated

from mosaic.records.fields import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk(Record):
    """Some lines of a log."""

    stream: Annotated[str, "`stdout` or `stderr`."]
    offset: Annotated[int, "Byte after this chunk."]
    text: Annotated[str, "Whole lines; one that is too long is cut and says so."]
    first: Annotated[int, "Byte at which the first line begins."]
    size: Annotated[int, "Bytes of the log when this chunk was read."]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricBatch(Record):
    """Points of one curve."""

    tag: Annotated[str, "Name of the scalar."]
    steps: Annotated[tuple[int, ...], "Environment steps."]
    values: Annotated[tuple[float, ...], "Values at these steps."]
    wall_times: Annotated[tuple[float, ...], "When they were written."]
    total_points: Annotated[int, "Points of the curve so far, before thinning."]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord(Record):
    """A live picture of the environment."""

    sequence: Annotated[int, "Number of the frame."]
    jpeg: Annotated[bytes, "The picture."]
    width: Annotated[int, "Pixels."]
    height: Annotated[int, "Pixels."]
    last_reward: Annotated[float, "Reward of the step that it shows."]
    rolling_return: Annotated[float, "Return of the episode so far."]
    step_rate_hz: Annotated[float, "Environment steps per second."]
    capped: Annotated[bool, "Rendering has used up its share of time and holds the rate down."]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGap(Record):
    """Records that a slow reader missed; to get them, read again after `first - 1`."""

    first: Annotated[int, "Number of the first one missed."]
    last: Annotated[int, "Number of the last one missed."]

    @property
    def count(self) -> int:
        """How many were missed."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord(Record):
    """One step of an agent."""

    seq: Annotated[int, "Dense within the run, from 1."]
    episode: Annotated[int, "Number of the episode."]
    step: Annotated[int, "Number of the step within the episode."]
    observation_json: Annotated[str, "Observation as JSON."]
    action_json: Annotated[str, "Action as JSON."]
    reward: Annotated[float, "Reward."]
    terminated: Annotated[bool, "The episode ended by the rules of the environment."]
    truncated: Annotated[bool, "The episode was cut off."]
    info_json: Annotated[str, "Anything else, as JSON."]
    frame_ref: Annotated[str, "Name of the stored frame."]
    frame: Annotated[bytes, "PNG or JPEG; empty if none was recorded."]
    at: Annotated[float, "When it happened."]
    agent_id: Annotated[str, "Which agent, if there are several."]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch(Record):
    """Some steps of a run."""

    run_id: Annotated[str, "The run."]
    steps: Annotated[tuple[StepRecord, ...], "In order."]
    gap: Annotated[SequenceGap | None, "Set if records were missed."]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord(Record):
    """One episode of an agent."""

    seq: Annotated[int, "Dense within the run, from 1."]
    episode: Annotated[int, "Number of the episode."]
    length: Annotated[int, "Steps."]
    total_reward: Annotated[float, "Sum of rewards."]
    outcome: Annotated[str, "How it ended."]
    seed: Annotated[int, "Seed of its reset."]
    info_json: Annotated[str, "Anything else, as JSON."]
    at: Annotated[float, "When it ended."]
    agent_id: Annotated[str, "Which agent, if there are several."]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeBatch(Record):
    """Some episodes of a run."""

    run_id: Annotated[str, "The run."]
    episodes: Annotated[tuple[EpisodeRecord, ...], "In order."]
    gap: Annotated[SequenceGap | None, "Set if records were missed."]
