"""Writing a report: the page, the PDF, and the folder with everything behind them."""

from dataclasses import dataclass
from pathlib import Path

from mosaic.reports.content import Report
from mosaic.reports.files import write_folder
from mosaic.reports.page import html
from mosaic.system import atomic


@dataclass(frozen=True)
class Written:
    """Where a report is; None for what was not asked for."""

    page: Path
    pdf: Path | None = None
    folder: Path | None = None


def write_report(
    report: Report, page: Path, *, pdf: bool = False, folder: Path | None = None
) -> Written:
    """Write a report.

    Args:
        report: What was found.
        page: The HTML file; the PDF gets the same name.
        pdf: Whether to write the PDF too.
        folder: Where figures, data, code and configurations go as files of their own.
    """
    atomic.write_bytes(page, html(report).encode())
    printed = page.with_suffix(".pdf") if pdf else None
    if printed is not None:
        from io import BytesIO

        from mosaic.reports import printed as printing

        buffer = BytesIO()
        printing.pdf(report, buffer)
        atomic.write_bytes(printed, buffer.getvalue())
    if folder is not None:
        write_folder(report, folder)
    return Written(page, printed, folder)
