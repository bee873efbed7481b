"""A Jupyter notebook with a run loaded: curves, settings, checkpoints, output. Pure.

A notebook is JSON (nbformat 4.5), so writing one needs no package; running it needs Jupyter.
"""

import json
from collections.abc import Sequence

from mosaic.config.json_types import JsonValue
from mosaic.records import RunRecord

RETURN = "charts/episodic_return"


def notebook(record: RunRecord, home: str | None) -> dict[str, JsonValue]:
    """The notebook of a run.

    Args:
        record: The run.
        home: Where its daemon is found; None for one elsewhere, which MOSAIC_CONNECT names then.
    """
    cells = [
        cell for number, item in enumerate(_content(record, home)) for cell in _pair(number, *item)
    ]
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "mosaic": {"run_id": record.run_id},
        },
        "cells": cells,
    }


def to_text(document: dict[str, JsonValue]) -> str:
    """The notebook as its file holds it."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _content(record: RunRecord, home: str | None) -> Sequence[tuple[str, str]]:
    """Each part: what it shows, and the code that does."""
    title = record.run_name or f"{record.algo or record.worker} {record.env_id}"
    # A token must not be in a file that is handed around, so only its owner's setting names it.
    how = (
        "`mosaic up` starts it"
        if home
        else "on another machine: start Jupyter with MOSAIC_CONNECT set to `ssh://user@host` or to "
        "the file of your invitation"
    )
    return (
        (
            f"# {title}\n\nThe run `{record.run_id}`, read through its daemon ({how}).",
            "from mosaic.client import TrainerClient\n\n"
            f"trainer = TrainerClient.connect({repr(home) if home else ''})\n"
            f"run = trainer.get({record.run_id!r})\n"
            "run",
        ),
        (
            "## Settings",
            'config = trainer.config(run.run_id)\nconfig["metadata"]["worker"]["config"]',
        ),
        (
            "## Curves\n\n`curves` has every scalar of the run as NumPy arrays.",
            "curves = trainer.curves(run.run_id)\nsorted(curves)",
        ),
        (
            "",
            "%matplotlib inline\n"
            "import matplotlib.pyplot as plt\n\n"
            f'for tag in [name for name in ({RETURN!r}, "losses/value_loss") if name in curves]:\n'
            "    plt.figure(figsize=(8, 3))\n"
            "    plt.plot(curves[tag].steps, curves[tag].values)\n"
            '    plt.xlabel("step")\n'
            "    plt.title(tag)\n"
            "    plt.show()",
        ),
        (
            "## Checkpoints\n\n"
            "`trainer.fork(run.run_id, STEP, learning_rate=1e-4)` continues from one.",
            "[(item.step, item.path) for item in trainer.kept_checkpoints(run.run_id)]",
        ),
        (
            "## What it depends on",
            'provenance = trainer.read_file(run.run_id, "provenance.json").document()\n'
            '{name: provenance.get(name) for name in ("python", "platform", "processor", "seeds")}',
        ),
        (
            "## Output",
            'print("".join(chunk.text for chunk in trainer.logs(run.run_id, tail_lines=20)))',
        ),
    )


def _pair(number: int, text: str, code: str) -> list[JsonValue]:
    cells: list[JsonValue] = []
    if text:
        cells.append(
            {
                "cell_type": "markdown",
                "id": f"text-{number}",
                "metadata": {},
                "source": _lines(text),
            }
        )
    cells.append(
        {
            "cell_type": "code",
            "id": f"code-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": _lines(code),
        }
    )
    return cells


def _lines(text: str) -> list[JsonValue]:
    return list(text.splitlines(keepends=True))
