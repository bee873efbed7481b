"""Reading a report from the daemon: numbers, settings, provenance, videos, all at one moment."""

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mosaic import __version__
from mosaic.client.comparing import read_runs
from mosaic.client.experiments import find_experiment, list_experiments
from mosaic.client.sdk import TrainerClient
from mosaic.config.flat import flat_settings
from mosaic.config.json_types import object_at
from mosaic.config.redaction import redact
from mosaic.config.suggest import did_you_mean
from mosaic.errors import (
    InvalidArgumentError,
    InvalidRunIdError,
    MosaicError,
    RunFileError,
    RunNotFoundError,
)
from mosaic.experiments.summary import MARKS
from mosaic.records import RunRecord
from mosaic.reports.content import Document, Report, RunFacts, Section, Table, Video, slug
from mosaic.reports.figures import figures_of
from mosaic.reports.repeating import commands_again, compare_command
from mosaic.reports.sweeps import sweep_section
from mosaic.statistics import tables
from mosaic.statistics.comparison import Question, compare
from mosaic.statistics.results import Comparison

# A page of this size still opens at once and fits into a mail.
_MOST_VIDEO_BYTES = 16 * 2**20
_MOST_VIDEOS = 6


@dataclass(frozen=True)
class Part:
    """A set of runs that is compared in a section of its own.

    Attributes:
        kind: `experiment`, `evaluation`, `sweep`, or `runs` for runs that were named one by one.
        name: Of the experiment; empty for runs.
    """

    kind: str
    name: str
    run_ids: tuple[str, ...]

    @property
    def title(self) -> str:
        """For people."""
        if self.kind == "runs":
            return "Runs"
        word = {"experiment": "Training", "evaluation": "Evaluation", "sweep": "Sweep"}[self.kind]
        return f"{word}: {self.name}"

    @property
    def word(self) -> str:
        """What `mosaic compare` calls it."""
        return shlex.quote(f"{self.kind}={self.name}") if self.name else " ".join(self.run_ids)


def find_parts(trainer: TrainerClient, words: Sequence[str]) -> list[Part]:
    """What the words of a user name: experiments with their evaluations, sweeps, runs.

    Raises:
        RunNotFoundError: One names nothing.
    """
    parts: list[Part] = []
    runs: dict[str, None] = {}
    for word in words:
        found = _named(trainer, word)
        parts += found
        if not found:
            runs[_run(trainer, word)] = None
    if runs:
        parts.append(Part("runs", "", tuple(runs)))
    return list(dict.fromkeys(parts))


def _run(trainer: TrainerClient, word: str) -> str:
    try:
        return trainer.get(word).run_id
    except (InvalidRunIdError, RunNotFoundError):
        hint = did_you_mean(word, [found.name for found in list_experiments(trainer)])
        raise RunNotFoundError(
            f"{word!r} is neither an experiment nor a run{hint}; `mosaic experiment list` and "
            "`mosaic runs` list what there is"
        ) from None


def _named(trainer: TrainerClient, word: str) -> list[Part]:
    kind, equals, name = word.partition("=")
    if equals and kind in MARKS.values():
        return [Part(kind, name, find_experiment(trainer, name, kind)[0].run_ids)]
    found = []
    for kind in MARKS.values():
        try:
            found.append(Part(kind, word, find_experiment(trainer, word, kind)[0].run_ids))
        except RunNotFoundError:
            continue
    return found


def gather(
    trainer: TrainerClient,
    words: Sequence[str],
    *,
    question: Question,
    title: str = "",
    notes: str = "",
    command: str = "",
) -> Report:
    """Read everything that a report has.

    Args:
        trainer: The daemon that has the runs.
        words: Experiments, sweeps and runs, as `mosaic report` takes them.
        question: What is compared, as for `mosaic compare`.
        title: Of the report; made of the names by default.
        notes: What its author wants to say.
        command: What makes the same report of the numbers of another day.

    Raises:
        RunNotFoundError: A word names nothing.
        InvalidArgumentError: No run has the metric.
    """
    parts = find_parts(trainer, words)
    if not parts:
        raise InvalidArgumentError("name an experiment or runs to report on")
    sections = [_section(trainer, part, question) for part in parts]
    groups = _groups(sections)
    ids = dict.fromkeys(run_id for part in parts for run_id in part.run_ids)
    records = [trainer.get(run_id) for run_id in ids]
    runs = [_facts(trainer, record, groups.get(record.run_id, "")) for record in records]
    videos, left_out = _videos(trainer, records)
    return Report(
        title=title or _title(parts, sections, records),
        made_at=time.time(),
        version=__version__,
        sections=tuple(sections),
        runs=tuple(runs),
        videos=tuple(videos),
        left_out=tuple(left_out),
        notes=notes,
        again=commands_again([(part.kind, part.name) for part in parts], runs, question),
        command=command,
        programs=programs_of(sections),
    )


def _groups(sections: Sequence[Section]) -> dict[str, str]:
    """The configuration of each run, in the words of the comparison."""
    found: dict[str, str] = {}
    for section in sections:
        for cell in section.comparison.cells if section.comparison else ():
            found |= {run.run_id: cell.group for run in cell.runs}
            found |= {run.run_id: cell.group for run in cell.left_out}
    return found


def programs_of(sections: Sequence[Section]) -> dict[str, str]:
    """The programs that drew the figures, by their file names."""
    used = {figure.program for section in sections for figure in section.figures}
    folder = Path(__file__).parent
    return {name: (folder / name).read_text(encoding="utf-8") for name in sorted(used)}


def _title(parts: Sequence[Part], sections: Sequence[Section], records: Sequence[RunRecord]) -> str:
    # The name of a sweep is an id, which says nothing to people.
    if parts[0].kind == "sweep":
        return sections[0].title
    names = list(dict.fromkeys(part.name for part in parts if part.name))
    if names:
        return ", ".join(names)
    return records[0].run_name if len(records) == 1 else f"{len(records)} runs"


def _section(trainer: TrainerClient, part: Part, question: Question) -> Section:
    if part.kind == "sweep":
        return sweep_section(trainer, part.name)
    name = slug(f"{part.kind}-{part.name}" if part.name else part.kind)
    runs = read_runs(trainer, part.run_ids, question.metric)
    found = compare(runs, question)
    return Section(
        name=name,
        title=part.title,
        lead=(
            "Runs that differ in nothing but their seed are one configuration. Intervals are 95 % "
            "bootstrap intervals over seeds. The same table: "
            f"{compare_command(part.word, question)}",
        ),
        comparison=found,
        figures=tuple(figures_of(name, found, runs)),
        tables=tuple(compared_tables(found)),
        notes=found.notes,
        latex=tables.latex(found),
    )


def compared_tables(found: Comparison) -> Iterable[Table]:
    """The tables of `mosaic compare`, in its words and with its digits."""
    if found.cells:
        rows = tuple(tuple(tables.row(cell, found)) for cell in found.cells)
        yield Table("Configurations", tuple(tables.columns(found)), rows)
    if found.overall:
        rows = tuple(tuple(tables.overall_row(one)) for one in found.overall)
        yield Table("All environments, scores between 0 and 1", tables.OVERALL_COLUMNS, rows)
    if found.pairs:
        rows = tuple(tuple(tables.pair_row(pair)) for pair in found.pairs)
        yield Table("Probability of improvement", tables.PAIR_COLUMNS, rows)


def _facts(trainer: TrainerClient, record: RunRecord, group: str) -> RunFacts:
    settings: Mapping[str, object] = {}
    config: Document = {}
    try:
        document = trainer.config(record.run_id)
        # What leaves the home has no secrets in it, wherever they were written.
        config = object_at(redact(document))
        settings = flat_settings(document)
    except (RunFileError, KeyError):
        pass  # the run still counts: its record and its curves are here
    begun, ended = record.started_at, record.finished_at
    return RunFacts(
        run_id=record.run_id,
        name=record.run_name,
        group=group,
        algo=record.algo or record.worker,
        env_id=record.env_id,
        seed=record.seed,
        mode=record.mode,
        outcome=str(record.outcome or record.state),
        steps=record.progress.step,
        created_at=record.created_at,
        seconds=ended - begun if begun and ended else None,
        notes=record.notes,
        tags=record.tags,
        parent_run_id=record.parent_run_id,
        settings=settings,
        config=config,
        provenance=_provenance(trainer, record.run_id),
    )


def _provenance(trainer: TrainerClient, run_id: str) -> Document:
    try:
        return object_at(redact(trainer.read_file(run_id, "provenance.json").document()))
    except RunFileError:
        return {}


def _videos(trainer: TrainerClient, records: Sequence[RunRecord]) -> tuple[list[Video], list[str]]:
    """The last video of each run, as long as they are few and small; what is left out."""
    videos: list[Video] = []
    left = _MOST_VIDEO_BYTES
    skipped = 0
    for record in records:
        path, size = _last_video(trainer, record.run_id)
        if not path:
            continue
        if len(videos) == _MOST_VIDEOS or size > left:
            skipped += 1
            continue
        data = trainer.read_file(record.run_id, path).data
        left -= len(data)
        name = slug(f"{record.run_id}-{path.rpartition('/')[2]}")
        videos.append(Video(name, f"{record.run_name or record.run_id}: {path}", data))
    if not skipped:
        return videos, []
    say = f"{skipped} more runs have videos: a report has at most {_MOST_VIDEOS}, of 16 MB together"
    return videos, [say]


def _last_video(trainer: TrainerClient, run_id: str) -> tuple[str, int]:
    try:
        files = trainer.files(run_id, "videos", recursive=True)
    except MosaicError:
        return "", 0
    films = [file for file in files if file.kind == "file" and file.path.endswith(".mp4")]
    newest = max(films, key=lambda file: (file.modified_at, file.path), default=None)
    return (newest.path, newest.size) if newest else ("", 0)
