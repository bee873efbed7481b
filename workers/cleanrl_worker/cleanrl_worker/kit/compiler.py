"""The compiler that `--compile` needs; found out without importing torch."""

from __future__ import annotations

import os
import shutil


def missing_compiler(*, cuda: bool) -> str | None:
    """What to do when the code that torch generates could not be built here.

    Args:
        cuda: whether it would be built for a GPU.

    Returns:
        One sentence, or `None` when there is a compiler.
    """
    variable, usual = ("CC", "gcc") if cuda else ("CXX", "g++")
    compiler = os.environ.get(variable) or usual
    if shutil.which(compiler) is not None:
        return None
    return (
        f"--compile builds code with {compiler}, which is not installed: leave --compile out, "
        f"or install a compiler (apt install g++) or name yours with {variable}=<path>."
    )
