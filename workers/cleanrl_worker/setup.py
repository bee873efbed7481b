"""Build hook: put the requirement sets of the repository into the package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SETS = Path(__file__).resolve().parents[2] / "requirements" / "extras"


class BuildWithSets(build_py):
    """The ordinary build step, and the sets that `mosaic extras` installs."""

    def run(self) -> None:
        super().run()
        # A checkout reads them where they are; only one copy can be the truth there.
        if not self.editable_mode and SETS.is_dir():
            target = Path(self.build_lib) / "cleanrl_worker" / "requirements" / "extras"
            shutil.copytree(SETS, target, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithSets})
