"""`python -m gym_gui.background.private_tensorboard …`: a TensorBoard for one window alone.

TensorBoard has no login, and every user of the machine can reach its port. So it
answers only below a path that cannot be guessed. The path comes in the environment and not on the
command line, which other users can read.
"""

import json
import os
import runpy
import sys
from pathlib import Path

PREFIX_VARIABLE = "MOSAIC_TENSORBOARD_PREFIX"
# What the window puts beside the event files of each run when it shows several together.
HPARAMS = "hparams.json"
# Where TensorBoard's HParams page finds how well each run did.
_METRICS = ("charts/episodic_return", "evaluation/return", "eval/mean")


def write_hparams(folder: Path) -> None:
    """Turn the settings of several runs into event files that the HParams page reads.

    Here and not in the window: TensorBoard's modules take a while to import.
    """
    found = {path.parent: json.loads(path.read_text()) for path in folder.glob(f"*/{HPARAMS}")}
    if not found:
        return
    from tensorboard.plugins.hparams import summary_v2 as hp

    names = sorted({name for settings in found.values() for name in settings})
    metrics = [hp.Metric(tag) for tag in _METRICS]
    _write(folder, hp.hparams_config_pb([hp.HParam(name) for name in names], metrics))
    for run, settings in found.items():
        _write(run, hp.hparams_pb(settings, trial_id=run.name))


def _write(folder: Path, summary: object) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    # The first by name: TensorBoard stops following a file once it has found a later one.
    with (folder / "events.out.tfevents.0.hparams").open("wb") as file:
        RecordWriter(file).write(Event(wall_time=1.0, summary=summary).SerializeToString())


def main() -> None:
    """Serve what the arguments name, below the path of the environment."""
    # TensorBoard notes address and path of each server in a shared folder, for its notebook.
    os.umask(0o077)
    # Its second process would serve the same data on a port of its own, without any path.
    sys.argv += ["--path_prefix", os.environ.pop(PREFIX_VARIABLE), "--load_fast", "false"]
    if "--logdir" in sys.argv:
        write_hparams(Path(sys.argv[sys.argv.index("--logdir") + 1]))
    runpy.run_module("tensorboard.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
