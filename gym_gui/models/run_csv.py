"""The run table as a file for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

from gym_gui.models.run_columns import Column, cell_for_file
from mosaic.records import RunRecord

# A spreadsheet would run a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table_csv(columns: Sequence[Column], runs: Iterable[RunRecord]) -> str:
    """Rows and columns as CSV, with the run's id first so that every row can be found again."""
    text = io.StringIO()
    writer = csv.writer(text)
    # The id comes first in every row, whether its column is shown or not.
    rest = [column for column in columns if column.key != "id"]
    writer.writerow(["run_id", *(column.key.partition(":")[2] or column.key for column in rest)])
    for run in runs:
        writer.writerow([run.run_id, *(_harmless(cell_for_file(c, run)) for c in rest)])
    return text.getvalue()


def _harmless(cell: str) -> str:
    if cell.startswith(_FORMULA):
        try:
            float(cell)
        except ValueError:
            return "'" + cell
    return cell
