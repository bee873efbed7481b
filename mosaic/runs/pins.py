"""Pinning a checkpoint: a small file beside it that keeps it, whatever the run's policy says."""

import os
from pathlib import Path, PurePosixPath

from mosaic.config.keeping import PIN_SUFFIX
from mosaic.runs.opening import is_regular, open_regular


def pin(run_dir: Path, checkpoint: str) -> bool:
    """Keep a checkpoint of a run that may be training and pruning right now.

    Args:
        run_dir: The run's directory.
        checkpoint: The file's path in it.

    Returns:
        Whether the checkpoint is there and will stay.

    Raises:
        OSError: The file beside it cannot be written.
    """
    place = PurePosixPath(checkpoint).with_suffix(PIN_SUFFIX)
    os.close(open_regular(run_dir, str(place), os.O_WRONLY | os.O_CREAT))
    # Looked for after the pin is there: a worker that prunes looks for pins before it removes.
    return is_regular(run_dir / checkpoint)
