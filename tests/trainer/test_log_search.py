"""Searching logs of any size: quick where it can be, never less exact."""

import re
from pathlib import Path

import pytest
from support.trainer import Trainer

from mosaic.runs import logs
from mosaic.runs.log_filter import LineFilter

_LINES = [
    "step 1 loss 0.5",
    "ValueError: bad shape",
    "td_error=0.1",
    "a \x1b[31mfat\x1b[0mal end",
    "FATAL: gone",
    "ſtraße naïve ﬁne",
    "\tindented\x00with nul",
    "",
    '{"event":"metrics","error":1}',
    "x" * 40_000 + " error at the end",
]


@pytest.mark.parametrize(
    "pattern",
    ["error", "(?i)fatal", r"\b(loss|step)\b", r"(?i)s", "loss 0.5", "^$", "n[a]n|Error", "fatal"],
)
def test_shortcuts_find_what_reading_every_line_finds(tmp_path: Path, pattern: str) -> None:
    """Skipping blocks that cannot fit loses no line, whatever is written in the log."""
    path = tmp_path / "stdout.log"
    for content in (_LINES, _LINES[:3], _LINES[4:6], ["plain"] * 50):
        path.write_text("\n".join(content) + "\n", encoding="utf-8")
        found = logs.read_lines(path, 0, final=True, wanted=LineFilter(pattern, '{"event":'))
        shown = [logs.show(line.encode()) for line in content]
        wanted = [line for line in shown if re.search(pattern, line) and '{"event":' not in line]
        assert list(found.lines) == wanted


def test_a_hit_says_where_it_stands(trainer: Trainer) -> None:
    """Who searches learns the byte at which the line begins, and can read on from there."""
    run_id = trainer.ended(trainer.submit("short")).run_id
    before = "filler\n" * 300_000
    path = trainer.directory(run_id).stdout
    path.write_text(before + "needle one\nnext line\nneedle two\n")
    (chunk,) = trainer.client.logs(run_id, grep="needle", stream="stdout")
    assert chunk.text == "needle one\nneedle two\n"
    assert (chunk.first, chunk.size) == (len(before), path.stat().st_size)
    (rest,) = trainer.client.logs(run_id, stream="stdout", offset=chunk.first)
    assert rest.text == "needle one\nnext line\nneedle two\n"
    pages = trainer.client.logs(run_id, stream="stdout", chunk_bytes=70_000)
    assert len(next(pages).text) <= 70_000
