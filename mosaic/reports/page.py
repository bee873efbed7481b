"""A report as one HTML page that needs nothing else: no network, no script, no other file. Pure."""

import base64
import json
from collections.abc import Iterable
from html import escape

from mosaic.presenting import formatting
from mosaic.records.fields import plain
from mosaic.reports.content import Figure, Report, Section, Table, Video
from mosaic.reports.files import AGAIN, archive
from mosaic.reports.shared import noted, provenance_tables, run_table, settings_tables

# The browser itself makes sure that the page reaches for nothing: whatever a run's name or notes
# contain, they load and run nothing.
_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2433; max-width: 62rem; margin: 2rem auto;
  padding: 0 1.2rem; }
h1 { margin: 0 0 .2rem; font-size: 1.9rem; }
h2 { margin: 2.4rem 0 .6rem; border-bottom: 1px solid #d5dae3; padding-bottom: .2rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.05rem; }
p.when, figcaption, .muted { color: #566074; }
figure { margin: 1.2rem 0; }
figure img { max-width: 100%; height: auto; }
video { max-width: 100%; }
nav a, .get a { margin-right: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; vertical-align: top; }
th { border-bottom: 1px solid #1d2433; white-space: nowrap; }
td { border-bottom: 1px solid #e6e9ef; font-variant-numeric: tabular-nums; }
pre { background: #f4f6f9; padding: .7rem .9rem; overflow-x: auto; font-size: .85rem; }
.note { border-left: 3px solid #d98200; padding-left: .7rem; }
@media print { nav, .get, details:not([open]) { display: none; } h2 { break-after: avoid; } }
"""


def html(report: Report) -> str:
    """The page."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(report.title)}</h1>",
        f'<p class="when">Numbers of {formatting.moment(report.made_at)}, MOSAIC '
        f"{escape(report.version)}, {len(report.runs)} runs. They do not change any more.</p>",
        _contents(report),
    ]
    if report.notes:
        parts.append(f"<pre>{escape(report.notes)}</pre>")
    parts += [_section(place, section) for place, section in enumerate(report.sections)]
    parts += [_videos(report), _setup(report), _again(report)]
    parts += [_machine_readable(section) for section in report.sections if section.comparison]
    parts.append("</body></html>\n")
    return "\n".join(filter(None, parts))


def _contents(report: Report) -> str:
    links = [(f"s{place}", section.title) for place, section in enumerate(report.sections)]
    links += [("videos", "Videos")] if report.videos else []
    links += [("setup", "Settings and provenance"), ("again", "Reproduce")]
    named = "".join(f'<a href="#{mark}">{escape(text)}</a>' for mark, text in links)
    everything = _download(
        archive(report), "application/zip", "report-files.zip", "All files (ZIP)"
    )
    return f"<nav>{named}{everything}</nav>"


def _section(place: int, section: Section) -> str:
    parts = [f'<h2 id="s{place}">{escape(section.title)}</h2>']
    parts += [f'<p class="muted">{escape(text)}</p>' for text in section.lead]
    parts += [_table(table) for table in section.tables[:1]]
    parts += [f'<p class="note">{escape(note)}</p>' for note in section.notes]
    parts += [_figure(figure) for figure in section.figures]
    parts += [_table(table) for table in section.tables[1:]]
    if section.latex:
        parts.append(_details("LaTeX table", f"<pre>{escape(section.latex)}</pre>"))
    return "\n".join(parts)


def _figure(figure: Figure) -> str:
    address = _data_address(figure.svg, "image/svg+xml")
    links = "".join(
        (
            _download(figure.svg, "image/svg+xml", f"{figure.name}.svg", "SVG"),
            _download(figure.pdf, "application/pdf", f"{figure.name}.pdf", "PDF"),
            _download(figure.data.encode(), "text/csv", f"{figure.name}.csv", "Data (CSV)"),
        )
    )
    return (
        f"<h3>{escape(figure.title)}</h3>"
        f'<figure><img src="{address}" alt="{escape(figure.title)}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        f'<p class="get">{links}<code>{escape(figure.redraw)}</code></p>'
    )


def _videos(report: Report) -> str:
    if not report.videos and not report.left_out:
        return ""
    parts = ['<h2 id="videos">Videos</h2>']
    parts += [_video(video) for video in report.videos]
    parts += [f'<p class="muted">{escape(text)}</p>' for text in report.left_out]
    return "\n".join(parts)


def _video(video: Video) -> str:
    address = _data_address(video.data, "video/mp4")
    return (
        f'<figure><video controls preload="metadata" src="{address}"></video>'
        f"<figcaption>{escape(video.caption)}</figcaption></figure>"
    )


def _setup(report: Report) -> str:
    parts = ['<h2 id="setup">Settings and provenance</h2>', _table(run_table(report.runs))]
    parts += [_table(table) for table in settings_tables(report.runs)]
    for table in provenance_tables(report.runs):
        parts.append(_details(f"Provenance: {table.title.lower()}", _table(table)))
    for name, text in noted(report):
        parts.append(f"<h3>Notes: {escape(name)}</h3><pre>{escape(text)}</pre>")
    return "\n".join(parts)


def _again(report: Report) -> str:
    programs = "".join(
        _details(f"The program that draws the figures: {name}", f"<pre>{escape(text)}</pre>")
        for name, text in report.programs.items()
    )
    made_by = f"<p>This page was made by</p><pre>{escape(report.command)}</pre>"
    return (
        '<h2 id="again">Reproduce</h2>'
        f"<p>Unpack the files above and run <code>sh {AGAIN}</code>, which is</p>"
        f"<pre>{escape(report.again)}</pre>"
        f"{made_by if report.command else ''}"
        "<p>On the same machine with the same packages the numbers are the same to the last "
        "digit; other versions may round differently.</p>"
        f"{programs}"
    )


def _machine_readable(section: Section) -> str:
    # `</` would end the element: a run may be named anything.
    text = json.dumps(plain(section.comparison)).replace("</", "<\\/")
    return f'<script type="application/json" id="data-{escape(section.name)}">{text}</script>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join(_row(row) for row in table.rows)
    return (
        f'<h3>{escape(table.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _details(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _download(content: bytes, kind: str, name: str, text: str) -> str:
    address = _data_address(content, kind)
    return f'<a href="{address}" download="{escape(name)}">{escape(text)}</a>'


def _data_address(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
