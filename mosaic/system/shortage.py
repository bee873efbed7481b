"""Which errors of the operating system pass by themselves, and what they are short of."""

import errno

# ENOMEM and EAGAIN are what `fork` says, EMFILE and ENFILE what everything that opens says.
_SHORT_OF = {
    errno.EMFILE: "file descriptors",
    errno.ENFILE: "file descriptors",
    errno.ENOMEM: "memory",
    errno.EAGAIN: "processes",
    errno.ENOSPC: "disk space or inodes",
    errno.EDQUOT: "disk quota",
}


def shortage(error: BaseException | None) -> str:
    """What the machine is short of according to an error; empty when waiting would not help."""
    number = error.errno if isinstance(error, OSError) else None
    return _SHORT_OF.get(number, "") if number is not None else ""
