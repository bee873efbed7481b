"""Live frames out of a training process.

Two ways in: `install()` (or the folder `site` on PYTHONPATH) covers scripts that build their
environments with Gymnasium and know nothing of MOSAIC; `mosaic.fastlane.FrameTap` is for loops of
our own, and for those of other workers.
"""

from cleanrl_worker.fastlane.launch import SITE_FOLDER, activate, launch_environment
from cleanrl_worker.fastlane.scenes import render_from_state
from cleanrl_worker.fastlane.site.fastlane_import_hook import install
from mosaic.fastlane.settings import Settings, read_settings, untapped
from mosaic.fastlane.tap import FrameTap

__all__ = [
    "SITE_FOLDER",
    "FrameTap",
    "Settings",
    "activate",
    "install",
    "launch_environment",
    "read_settings",
    "render_from_state",
    "untapped",
]
