"""What a run leaves behind: each step, each reply, the prompts and the result.

Two append-only files hold everything that is needed to continue after a kill: `steps.jsonl` has
the decisions and what came of them, `replies.jsonl` every reply that was paid for, by the hash of
its request. The state of the environment is rebuilt from the seed and the recorded actions, and
compared with what was recorded, step by step.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from llm_worker.errors import RecordError
from llm_worker.play.actions import Action, Json
from llm_worker.play.replies import Reply
from mosaic.system import atomic

FOLDER = "llm"
STEPS, REPLIES, PROBE, SUMMARY = "steps.jsonl", "replies.jsonl", "probe.json", "summary.json"
CHECKPOINT = "checkpoints/llm.json"
_COPIED = (STEPS, REPLIES, PROBE)


@dataclass(frozen=True)
class StepRecord:
    """One step.

    Attributes:
        text: What the model read.
        requests: The hashes of the requests, the last one answered with the action.
        valid: False when no answer was valid and the default action was taken.
        probability: Of the action among the allowed ones, where the server says it.
        seconds: How long the step took; the only field that differs between equal runs.
        player: Who acted, where several do.
    """

    episode: int
    step: int
    text: str
    requests: list[str]
    reply: str
    reasoning: str
    action: Action
    action_name: str
    valid: bool
    probability: float | None
    reward: float
    terminated: bool
    truncated: bool
    success: bool | None
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: float | None
    seconds: float
    player: str = ""

    def comparable(self) -> Json:
        """Everything but the time, which no two runs share."""
        document = asdict(self)
        del document["seconds"]
        return document


T = TypeVar("T")
_STEP, _REPLY = TypeAdapter(StepRecord), TypeAdapter(Reply)


class AppendOnly:
    """A file of JSON lines that survives a kill at any byte."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.found = list(self._read_whole_lines())
        self._file = path.open("ab")

    def append(self, document: Json) -> None:
        """Add one line. A killed process loses none that was added before."""
        line = json.dumps(document, separators=(",", ":"), allow_nan=False)
        self._file.write(line.encode() + b"\n")
        # To the system, not to the disk: a killed process keeps it, and a step stays cheap.
        self._file.flush()

    def close(self) -> None:
        """Write everything to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _read_whole_lines(self) -> Iterator[Json]:
        """The lines so far; half a line at the end, from a kill, is cut off."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self._path, whole)
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                document = json.loads(line)
            except ValueError as error:
                raise RecordError(f"{self._path.name}, line {number}: {error}") from error
            if not isinstance(document, dict):
                raise RecordError(f"{self._path.name}, line {number} is no record")
            yield document


class RunRecords:
    """The files of one run."""

    def __init__(self, run_dir: Path, continued: Path | None = None) -> None:
        """Open the records; `continued` is the directory of the run to continue."""
        self.run_dir = run_dir
        self._folder = run_dir / FOLDER
        if continued is not None and not (self._folder / STEPS).exists():
            self._take_over(continued)
        self._steps = AppendOnly(self._folder / STEPS)
        self._replies = AppendOnly(self._folder / REPLIES)
        self.done = [_step(line) for line in self._steps.found]
        self.replies = {str(line["request"]): _reply(line) for line in self._replies.found}

    def add_step(self, record: StepRecord) -> None:
        """Keep a step that was taken."""
        self._steps.append(asdict(record))

    def add_reply(self, request: str, reply: Reply) -> None:
        """Keep a reply as soon as it has come: it is never paid for again."""
        self.replies[request] = reply
        self._replies.append({"request": request, **asdict(reply)})

    def write_probe(self, document: Json) -> None:
        """Keep what was found out about the server."""
        atomic.write_json(self._folder / PROBE, document)

    def write_prompt(self, name: str, text: str) -> None:
        """Keep a template, or the newest request."""
        folder = self._folder / "prompts"
        folder.mkdir(exist_ok=True)
        atomic.write_text(folder / name, text)

    def write_summary(self, document: Json) -> None:
        """Keep the result so far."""
        atomic.write_json(self._folder / SUMMARY, document)

    def write_checkpoint(self, episode: int, step: int) -> tuple[str, str]:
        """A mark that the platform lists as a checkpoint; returns its path and checksum.

        The records themselves are the checkpoint; the mark says that there is one.
        """
        path = self.run_dir / CHECKPOINT
        path.parent.mkdir(exist_ok=True)
        document: Json = {"format": "llm-records", "episode": episode, "step": step}
        data = json.dumps(document).encode()
        atomic.write_bytes(path, data)
        return CHECKPOINT, hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        """Write everything to the disk."""
        self._steps.close()
        self._replies.close()

    def _take_over(self, run_dir: Path) -> None:
        earlier = run_dir / FOLDER
        if not (earlier / STEPS).exists():
            raise RecordError(f"{run_dir} has no records of a language model to continue")
        self._folder.mkdir(parents=True, exist_ok=True)
        # The steps last: with them the copy is complete, and a kill before repeats it.
        for name in (*_COPIED[1:], STEPS):
            if (earlier / name).exists():
                half = self._folder / f"{name}.half"
                shutil.copyfile(earlier / name, half)
                half.rename(self._folder / name)


def read_steps(path: Path) -> list[StepRecord]:
    """The steps that a run has recorded, from a copy of its file.

    Raises:
        RecordError: A line is no step of this version.
    """
    file = AppendOnly(path)
    file.close()
    return [_step(line) for line in file.found]


def continued_run(checkpoint_path: str) -> Path:
    """The run directory that a path of `--resume` means."""
    path = Path(checkpoint_path)
    for candidate in (path, path.parent, path.parent.parent):
        if (candidate / FOLDER / STEPS).exists():
            return candidate
    raise RecordError(
        f"{checkpoint_path} belongs to no run of a language model", "give the run's directory"
    )


def _step(line: Json) -> StepRecord:
    return _checked(_STEP, line)


def _reply(line: Json) -> Reply:
    return _checked(_REPLY, {name: value for name, value in line.items() if name != "request"})


def _checked(kind: TypeAdapter[T], line: Json) -> T:
    try:
        return kind.validate_python(line)
    except ValidationError as error:
        raise RecordError(f"a record is not of this version: {error.errors()[0]['msg']}") from error
