"""A report as data: what was found, frozen at one moment. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mosaic.statistics.results import Comparison

Document = Mapping[str, object]


@dataclass(frozen=True)
class Figure:
    """A picture and everything that is needed to draw it again.

    Attributes:
        name: Of its files, unique in the report.
        kind: Which function of the drawing program draws it.
        title: What it shows.
        caption: How to read it.
        data: Its numbers as CSV.
        program: The drawing program's file name.
        svg: The picture.
        pdf: The same for a paper.
        png: The same in dots, where the program draws no part of a page; empty otherwise.
    """

    name: str
    kind: str
    title: str
    caption: str
    data: str
    program: str
    svg: bytes
    pdf: bytes
    png: bytes = b""

    @property
    def redraw(self) -> str:
        """The command that draws it again."""
        return f"python {self.program} {self.kind} {self.name}.csv {self.name}.svg"


@dataclass(frozen=True)
class Table:
    """Rows of text under a title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """What one set of runs shows.

    Attributes:
        name: Of its files.
        title: For people.
        lead: The sentences in front of the figures.
        comparison: The numbers of `mosaic compare`; None where runs are not compared.
        latex: The table for a paper.
    """

    name: str
    title: str
    lead: tuple[str, ...] = ()
    comparison: Comparison | None = None
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    latex: str = ""


@dataclass(frozen=True)
class RunFacts:
    """A run behind the report.

    Attributes:
        group: The configuration that it belongs to.
        settings: What it was asked to do, by flat names.
        config: The configuration as it can be submitted again; empty if it cannot be read.
        provenance: What its result depends on.
    """

    run_id: str
    name: str
    group: str
    algo: str
    env_id: str
    seed: int | None
    mode: str
    outcome: str
    steps: int
    created_at: float
    seconds: float | None
    notes: str
    tags: tuple[str, ...]
    parent_run_id: str
    settings: Mapping[str, object] = field(default_factory=dict)
    config: Document = field(default_factory=dict)
    provenance: Document = field(default_factory=dict)


@dataclass(frozen=True)
class Video:
    """A recorded episode."""

    name: str
    caption: str
    data: bytes


@dataclass(frozen=True)
class Report:
    """Everything that is handed over.

    Attributes:
        made_at: When the numbers were read; they never change afterwards.
        version: Of MOSAIC.
        left_out: What the report does not contain, and why.
        again: The shell program that trains and compares everything again.
        command: What made the report.
    """

    title: str
    made_at: float
    version: str
    sections: tuple[Section, ...]
    runs: tuple[RunFacts, ...]
    videos: tuple[Video, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: str = ""
    again: str = ""
    command: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every figure of every section."""
        return tuple(figure for section in self.sections for figure in section.figures)


def slug(text: str) -> str:
    """A name as files can have it everywhere."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.")
    return plain[:80] or "unnamed"
