"""The page of a report in a real browser, from disk, without a network."""

import base64
import io
import json
import re
import zipfile
from pathlib import Path

from support.browser import browsing

from mosaic.records.fields import plain
from mosaic.reports.content import Report, Video
from mosaic.reports.page import html
from mosaic.reports.printed import pdf


def test_the_page_opens_from_disk_and_reaches_for_nothing(report: Report, tmp_path: Path) -> None:
    """Every figure is seen, downloads work, and no name of a run becomes part of the page."""
    page_file = tmp_path / "report.html"
    page_file.write_text(html(report))
    asked: list[str] = []
    problems: list[str] = []
    with browsing() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: problems.append(message.text))
        page.goto(page_file.as_uri())
        widths = page.eval_on_selector_all("figure img", "all => all.map(one => one.naturalWidth)")
        assert len(widths) == len(report.figures)
        assert all(width > 100 for width in widths)
        assert page.title() == report.title
        with page.expect_download() as waiting:
            page.get_by_text("All files (ZIP)").click()
        packed = Path(waiting.value.path()).read_bytes()
    assert {url for url in asked if not url.startswith("data:")} == {page_file.as_uri()}
    assert not problems
    with zipfile.ZipFile(io.BytesIO(packed)) as files:
        names = set(files.namelist())
        assert files.read("again.sh").decode() == report.again
    assert {"experiment-study.tex", "experiment-study.json", "figures/drawing.py"} <= names
    assert sum(name.startswith("configs/") for name in names) == len(report.runs)


def test_the_page_holds_the_numbers_for_programs_too(report: Report) -> None:
    """What `mosaic compare --json` prints is in the page, whatever runs are called."""
    found = re.search(
        r'<script type="application/json" id="data-experiment-study">(.*?)</script>', html(report)
    )
    assert found is not None
    assert json.loads(found[1]) == plain(report.sections[0].comparison)


def test_videos_are_part_of_the_page(report: Report) -> None:
    """A recorded episode plays without the run's folder."""
    from dataclasses import replace

    film = b"\x00\x00\x00\x18ftypmp42"
    shown = html(replace(report, videos=(Video("a.mp4", "the last episode", film),)))
    assert f'src="data:video/mp4;base64,{base64.b64encode(film).decode()}"' in shown
    assert "the last episode" in shown


def test_the_pdf_has_text_tables_and_figures(report: Report) -> None:
    """It needs no browser: a page of text, the figures as drawings, the settings behind them."""
    target = io.BytesIO()
    pdf(report, target)
    printed = target.getvalue()
    assert printed.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", printed)) >= 4
    # Drawn, not photographed.
    assert b"/Subtype /Image" not in printed
