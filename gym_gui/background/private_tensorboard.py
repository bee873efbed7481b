"""`python -m gym_gui.background.private_tensorboard …`: a TensorBoard for one window alone.

TensorBoard has no login, and every user of the machine can reach its port. So it
answers only below a path that cannot be guessed. The path comes in the environment and not on the
command line, which other users can read.
"""

import os
import runpy
import sys

PREFIX_VARIABLE = "MOSAIC_TENSORBOARD_PREFIX"


def main() -> None:
    """Serve what the arguments name, below the path of the environment."""
    # TensorBoard notes address and path of each server in a shared folder, for its notebook.
    os.umask(0o077)
    # Its second process would serve the same data on a port of its own, without any path.
    sys.argv += ["--path_prefix", os.environ.pop(PREFIX_VARIABLE), "--load_fast", "false"]
    runpy.run_module("tensorboard.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
