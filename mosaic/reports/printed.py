"""A report as PDF, drawn by matplotlib: it needs no browser and works wherever reports do."""

import csv
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure as Page
from matplotlib.figure import SubFigure
from matplotlib.image import imread

from mosaic.presenting import formatting
from mosaic.reports import drawing
from mosaic.reports.content import Figure, Report, Table
from mosaic.reports.shared import noted, run_table, settings_tables

_A4 = (8.27, 11.69)
_POINTS_PER_INCH = 72
_MARGIN = 0.7
_TOP = _A4[1] - _MARGIN
_WIDTH = _A4[0] - 2 * _MARGIN
# Of DejaVu Sans Mono, which comes with matplotlib: every letter has this width.
_LETTER = 0.602
_LARGEST, _SMALLEST = 8.5, 5.0
_LINE = 1.35
# The place of a caption below its figure, in inches.
_CAPTION = 0.5


def pdf(report: Report, target: BinaryIO) -> None:
    """Write the report as PDF."""
    with PdfPages(target, metadata={"Title": report.title}) as pages:
        sheet = _Sheet(pages)
        sheet.text(report.title, 18, bold=True)
        runs = f"{len(report.runs)} runs"
        sheet.text(
            f"Numbers of {formatting.moment(report.made_at)}, MOSAIC {report.version}, {runs}.", 9
        )
        sheet.paragraphs(report.notes)
        for section in report.sections:
            sheet.text(section.title, 13, bold=True, space=0.25)
            for lead in section.lead:
                sheet.paragraphs(lead)
            for table in section.tables:
                sheet.table(table)
            for note in section.notes:
                sheet.paragraphs(f"Note: {note}")
            sheet.figures(section.figures)
        sheet.text("Settings and provenance", 13, bold=True, space=0.25)
        for table in (run_table(report.runs), *settings_tables(report.runs)):
            sheet.table(table)
        for name, text in noted(report):
            sheet.paragraphs(f"Notes, {name}: {text}")
        sheet.text("Reproduce", 13, bold=True, space=0.25)
        sheet.lines(report.again.splitlines(), _LARGEST)
        if report.command:
            sheet.paragraphs(f"This report was made by: {report.command}")
        sheet.close()


@dataclass(frozen=True)
class _Placed:
    """A figure and the height that it gets on paper, in inches, with title and caption."""

    figure: Figure
    height: float

    def draw(self, part: SubFigure) -> None:
        """Draw it on a part of a page."""
        if self.figure.png:
            axes = part.subplots()
            axes.imshow(imread(io.BytesIO(self.figure.png)))
            axes.axis("off")
        else:
            drawing.KINDS[self.figure.kind](part, _rows(self.figure))


class _Sheet:
    """Fills pages from top to bottom."""

    def __init__(self, pages: PdfPages) -> None:
        self._pages = pages
        self._page = Page(figsize=_A4)
        self._y = _TOP

    def text(self, text: str, size: float, *, bold: bool = False, space: float = 0.0) -> None:
        """One line or several in the ordinary font."""
        self._y -= space
        # Ordinary letters are narrower than 0.6 of their height on average.
        for line in textwrap.wrap(text, int(_WIDTH * _POINTS_PER_INCH / (size * 0.55))):
            self._write(line, size, "bold" if bold else "normal", "sans-serif")

    def paragraphs(self, text: str) -> None:
        """Sentences, each paragraph wrapped."""
        for paragraph in text.splitlines():
            self.text(paragraph, 9)

    def lines(self, lines: Iterable[str], size: float) -> None:
        """Lines of equally wide letters; what is too long continues on the next line."""
        most = round(_WIDTH * _POINTS_PER_INCH / (size * _LETTER))
        for line in lines:
            for part in textwrap.wrap(line, most, subsequent_indent="    ") or [""]:
                self._write(part, size, "normal", "monospace")

    def table(self, table: Table) -> None:
        """A table in letters so small that its rows fit, or wrapped where none are small enough."""
        self.text(table.title, 10, bold=True, space=0.12)
        lines = list(_aligned((table.columns, *table.rows)))
        longest = max(map(len, lines))
        fitting = _WIDTH * _POINTS_PER_INCH / (longest * _LETTER)
        self.lines(lines, max(_SMALLEST, min(_LARGEST, fitting)))

    def figures(self, figures: Sequence[Figure]) -> None:
        """Figures on pages of their own, still made of lines and letters, not of dots."""
        for chosen in _by_page(figures):
            self._next()
            heights = [high for one in chosen for high in (one.height - _CAPTION, _CAPTION)]
            empty = max(_A4[1] - _MARGIN - sum(heights), 0.01)
            # Arranged by matplotlib itself, so that no label touches another.
            self._page = Page(figsize=_A4, layout="constrained")
            grid = self._page.subfigures(
                len(heights) + 2, 3, squeeze=False,
                height_ratios=[_MARGIN, *heights, empty], width_ratios=[_MARGIN, _WIDTH, _MARGIN],
            )  # fmt: skip
            parts = grid[1:, 1]
            for at, one in enumerate(chosen):
                one.draw(parts[2 * at])
                parts[2 * at].suptitle(one.figure.title, fontsize=10, fontweight="bold")
                below = textwrap.fill(one.figure.caption, 105)
                parts[2 * at + 1].text(0.0, 1.0, below, fontsize=8, verticalalignment="top")
            # Full: what follows begins a page.
            self._y = _MARGIN

    def close(self) -> None:
        """Write the last page."""
        self._pages.savefig(self._page)

    def _write(self, line: str, size: float, weight: str, family: str) -> None:
        high = size * _LINE / _POINTS_PER_INCH
        if self._y - high < _MARGIN:
            self._next()
        self._y -= high
        self._page.text(
            _MARGIN / _A4[0], self._y / _A4[1], line,
            fontsize=size, fontweight=weight, family=family, parse_math=False,
        )  # fmt: skip

    def _next(self) -> None:
        self._pages.savefig(self._page)
        self._page = Page(figsize=_A4)
        self._y = _TOP


def _by_page(figures: Iterable[Figure]) -> Iterator[list[_Placed]]:
    """The figures of each page, as many as fit."""
    chosen: list[_Placed] = []
    for figure in figures:
        width, height = _size(figure)
        # Title and caption need a place too.
        high = min(height * min(1.0, _WIDTH / width) + 0.3 + _CAPTION, _TOP - _MARGIN)
        if sum(one.height for one in chosen) + high > _TOP - _MARGIN:
            yield chosen
            chosen = []
        chosen.append(_Placed(figure, high))
    if chosen:
        yield chosen


def _size(figure: Figure) -> tuple[float, float]:
    if not figure.png:
        return drawing.size(figure.kind, _rows(figure))
    high, wide = imread(io.BytesIO(figure.png)).shape[:2]
    return _WIDTH, _WIDTH * high / wide


def _rows(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(figure.data)))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
