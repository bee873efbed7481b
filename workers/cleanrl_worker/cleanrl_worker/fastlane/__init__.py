"""Live frames out of a training process.

Two ways in: `install()` (or the folder `site` on PYTHONPATH) covers scripts that build their
environments with Gymnasium and know nothing of MOSAIC; `FrameTap` is for loops of our own.
"""

from cleanrl_worker.fastlane.launch import SITE_FOLDER, activate, launch_environment
from cleanrl_worker.fastlane.scenes import render_from_state
from cleanrl_worker.fastlane.settings import Settings, read_settings, untapped
from cleanrl_worker.fastlane.site.fastlane_import_hook import install
from cleanrl_worker.fastlane.tap import FrameTap

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
