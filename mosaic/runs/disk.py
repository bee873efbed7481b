"""A disk that takes no more: which errors say so, and output streams that live with it."""

import errno
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Not the list of `mosaic.system.shortage`, which says when waiting helps. A training process loses
# a line rather than wait, so a file that is too large or a broken disk counts here too.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def refuses(error: OSError) -> bool:
    """Whether an error says that the disk takes no more, which may change again."""
    return error.errno in _FULL


class ForgivingFile(io.FileIO):
    """A file whose writer continues when the disk is full; what it wrote then is lost.

    Attributes:
        lost: How many bytes the disk did not take.
    """

    lost = 0

    def write(self, content: "ReadableBuffer") -> int:
        """Write, or let it go."""
        try:
            return super().write(content) or 0
        except OSError as error:
            if not refuses(error):
                raise
            size = memoryview(content).nbytes
            self.lost += size
            return size


def forgive_full_disks() -> None:
    """Let this process print on when the disk that takes its output is full.

    Otherwise a line that may never be read ends days of training.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            continue
        stream.flush()
        raw = ForgivingFile(stream.fileno(), "wb", closefd=False)
        buffered = io.BufferedWriter(raw)
        encoding, errors = stream.encoding, stream.errors
        forgiving = io.TextIOWrapper(buffered, encoding=encoding, errors=errors, write_through=True)
        setattr(sys, name, forgiving)
