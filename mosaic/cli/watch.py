"""`mosaic watch`: runs live, or one run to its end."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mosaic.cli import output
from mosaic.cli.follow import describe, follow
from mosaic.cli.options import complete_runs
from mosaic.client import TrainerClient
from mosaic.config.sites import LOCAL
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import RunRecord, RunUpdated, SnapshotEnd

if TYPE_CHECKING:
    from mosaic.client.live_frames import LiveFrames
    from mosaic.fastlane.reader import FrameReader

# As large as a GIF becomes, and more than a terminal shows.
_MOST_PIXELS = 320


@click.command()
@click.argument("run", required=False, metavar="[RUN]", shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON.")
@click.option("--frames", type=click.Path(path_type=Path), help="Record live frames to a GIF file.")
@click.option("--preview", is_flag=True, help="Show live frames in this terminal.")
@click.option("--seconds", type=float, help="How long to record or show (default for a GIF: 5).")
@click.option("--fps", type=float, default=15.0, show_default=True, help="Frames per second.")
def watch(
    run: str | None,
    as_json: bool,
    frames: Path | None,
    preview: bool,
    seconds: float | None,
    fps: float,
) -> int:
    """Follow a run until it ends, or all runs if none is given.

    With --frames or --preview, record or show the live frames of a run.
    """
    with TrainerClient.connect() as trainer:
        if frames or preview:
            record = trainer.get(run or "last")
            if record.ended:
                raise InvalidArgumentError(
                    f"run {record.run_id} has ended ({record.outcome}), so it shows no frames; "
                    f"what it recorded: mosaic replay {record.run_id}"
                )
            return _show_frames(trainer, record, frames, seconds, fps)
        if run and not as_json:
            return follow(trainer, trainer.get(run).run_id)
        wanted = trainer.get(run).run_id if run else None
        try:
            _every_change(trainer, wanted, as_json)
        except KeyboardInterrupt:
            return 130
    return 0


def _frames_of(trainer: TrainerClient, record: RunRecord, fps: float) -> "FrameReader | LiveFrames":
    """The run's shared memory, or the daemon's connection where there is none to share."""
    if trainer.elsewhere is None and record.site == LOCAL:
        from mosaic.fastlane.reader import FrameReader

        return FrameReader(record.run_id, run_dir=record.run_dir)
    from mosaic.client.live_frames import LiveFrames

    # A connection of its own: the stream is ended by closing it.
    return LiveFrames(TrainerClient.connect(), record.run_id, max_fps=fps, max_dim=_MOST_PIXELS)


def _show_frames(
    trainer: TrainerClient,
    record: RunRecord,
    gif: Path | None,
    seconds: float | None,
    fps: float,
) -> int:
    from mosaic.fastlane import recorder

    with _frames_of(trainer, record, fps) as reader:
        if gif is None:
            size = shutil.get_terminal_size()
            shown = recorder.preview(
                reader,
                sys.stdout,
                seconds=seconds,
                columns=size.columns,
                rows=size.lines - 2,
                max_fps=fps,
            )
            if not shown:
                raise MosaicError(recorder.why_no_frames(reader, seconds or 0.0))
            return 0
        recording = recorder.record_gif(reader, gif, seconds=seconds or 5.0, max_fps=fps)
    print(f"{gif}: {recording.frames} frames over {recording.seconds:.1f} s")
    return 0


def _every_change(trainer: TrainerClient, wanted: str | None, as_json: bool) -> None:
    live = False  # whether the snapshot is over
    for change in trainer.watch():
        record = change.run if isinstance(change, RunUpdated) else None
        concerns = wanted is None or (record and record.run_id == wanted)
        if as_json and concerns:
            print(json.dumps(change.to_dict()), flush=True)
        # The snapshot holds every run of the home; only live ones are news.
        elif record and concerns and (live or record.live):
            output.say(record.run_id, output.state_cell(record), record.run_name, describe(record))
        live = live or isinstance(change, SnapshotEnd)
        if wanted and record and record.run_id == wanted and record.ended:
            return
