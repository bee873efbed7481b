"""A support bundle: what explains a run, with everything secret taken out."""

import zipfile
from pathlib import Path

from gym_gui.background.run_reading import bundle_parts
from mosaic.client import TrainerClient


def write_bundle(client: TrainerClient, run_id: str, target: Path) -> int:
    """Write the bundle of a run; returns how many files are in it. Off the GUI thread.

    Raises:
        OSError: It cannot be written there.
    """
    count = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in bundle_parts(client, run_id):
            bundle.writestr(name, text)
            count += 1
    return count
