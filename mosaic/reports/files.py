"""Everything behind a report as files: figures with their data and code, configurations, tables."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mosaic.records.fields import plain
from mosaic.reports.content import Report, RunFacts
from mosaic.reports.repeating import can_submit, config_name

AGAIN = "again.sh"
# ZIP knows no earlier one. Fixed, so that the same report is the same file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def files_of(report: Report) -> Iterator[tuple[str, bytes]]:
    """Names and contents, the same for the folder and for the archive inside the page."""
    for figure in report.figures:
        yield f"figures/{figure.name}.svg", figure.svg
        yield f"figures/{figure.name}.pdf", figure.pdf
        yield f"figures/{figure.name}.csv", figure.data.encode()
    for name, text in report.programs.items():
        yield f"figures/{name}", text.encode()
    for section in report.sections:
        if section.comparison is not None:
            yield f"{section.name}.json", _json(section.comparison)
        if section.latex:
            yield f"{section.name}.tex", (section.latex + "\n").encode()
    for run in report.runs:
        if can_submit(run):
            yield config_name(run), _json(run.config)
        yield f"runs/{run.run_id}.json", _json(_facts(run))
    yield AGAIN, report.again.encode()


def write_folder(report: Report, folder: Path) -> int:
    """Write the files of a report into a folder; how many there are."""
    count = 0
    for name, content in files_of(report):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        count += 1
    return count


def archive(report: Report) -> bytes:
    """The files of a report as one ZIP archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files_of(report):
            packed.writestr(zipfile.ZipInfo(name, _MOMENT), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _facts(run: RunFacts) -> dict[str, object]:
    return {**vars(run), "settings": dict(run.settings)}


def _json(content: object) -> bytes:
    return (json.dumps(plain(content), indent=1, default=str) + "\n").encode()
