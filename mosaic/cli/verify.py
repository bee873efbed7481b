"""`mosaic verify`: train pieces of a run again, and certify that they lead to the same bits."""

import click

from mosaic.cli import output
from mosaic.cli.options import json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.client.verifying import Piece, choose, pieces, read_certificate
from mosaic.client.verifying import verify as submit_piece
from mosaic.presenting.certificates import certificate_lines, verdict_line
from mosaic.records import RunRecord
from mosaic.runs.certificate import Certificate


@click.command()
@run_argument
@click.option(
    "--pieces",
    "count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many pieces, chosen at random; all of them if there are fewer.",
)
@json_option
def verify(run: str, count: int, as_json: bool) -> int:
    """Train random pieces of RUN again and compare every bit.

    A piece is what was trained between two kept checkpoints (`mosaic train --keep every:N`). Each
    is trained again as a run of its own, which keeps the certificate. Exit code 1: something
    differs.
    """
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        if base.mode == "verify" and base.parent_run_id:
            # After a verification `last` is the verification; what it verified is meant.
            base = trainer.get(base.parent_run_id)
        chosen = choose(pieces(trainer, base), count)
        submitted = [submit_piece(trainer, base, piece) for piece in chosen]
        if not as_json:
            output.say(f"{base.run_id} {base.run_name}: {_count(len(chosen))} to train again")
        ended = trainer.wait_all([record.run_id for record in submitted])
        found = [read_certificate(trainer, record.run_id) for record in ended]
    if as_json:
        output.print_json(
            [item or _without(record) for item, record in zip(found, ended, strict=True)]
        )
    else:
        for piece, record, item in zip(chosen, ended, found, strict=True):
            _show(piece, record, item)
    return 0 if all(item and item["verdict"] == "verified" for item in found) else 1


def _show(piece: Piece, record: RunRecord, item: Certificate | None) -> None:
    if item is None:
        steps = f"steps {piece.start.step:,} to {piece.end.step:,}"
        output.say(f"{steps}: no certificate, {record.outcome}: {record.reason or 'no reason'}")
        output.say(f"  see: mosaic logs {record.run_id}")
        return
    output.say(verdict_line(item))
    for line in certificate_lines(item):
        output.say(f"  {line}")
    output.say(f"  certificate: {record.run_dir}/certificate.json")


def _without(record: RunRecord) -> dict[str, object]:
    return {
        "verdict": None,
        "verified_by": record.run_id,
        "findings": [record.reason or f"the run ended as {record.outcome}"],
    }


def _count(number: int) -> str:
    return "1 piece" if number == 1 else f"{number} pieces"
