"""What of this machine's environment chooses how it computes."""

import os


def kernels() -> dict[str, str]:
    """The variables by which OpenBLAS chooses its code: with other code the last digits differ.

    A machine that a test reaches by ssh or SLURM inherits none of them, and has to be given them
    before its results can be compared with those of this machine to the last bit.
    """
    return {name: text for name, text in os.environ.items() if name.startswith("OPENBLAS_")}
