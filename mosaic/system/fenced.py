"""Work on what others wrote, in a process of its own that can be stopped.

A thread cannot be stopped, and one that holds the interpreter's lock stops every other. So what
may run for ever or eat all memory, such as reading a pickle, is done by a fresh interpreter with
limits on time and memory. It gets one JSON value and answers with another.
"""

import importlib
import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mosaic.errors import FenceError

if TYPE_CHECKING:
    from mosaic.config.json_types import JsonValue

# What a careful function may answer; it is read into the caller's memory.
_LONGEST_ANSWER = 4 * 2**20
_ANSWERED, _BROKE, _TOO_LONG = 0, 3, 4


@dataclass(frozen=True)
class Limits:
    """What the helper may use.

    Attributes:
        cpu_s: Computing time, the limit that counts: it does not depend on how busy the machine is.
        wall_s: Real time, for one that waits instead of computing. Generous, because on a busy
            machine the interpreter alone takes seconds to start.
        memory_mb: Address space.
    """

    cpu_s: int = 3
    wall_s: float = 20.0
    memory_mb: int = 1024


class Fenced(Protocol):
    """What runs behind the fence."""

    def __call__(self, argument: "JsonValue") -> "JsonValue":
        """Answer with plain data."""


def call(reference: str, argument: "JsonValue", limits: Limits | None = None) -> "JsonValue":
    """Call a function in a helper process.

    Args:
        reference: `package.module:function`; it takes one JSON value and returns another.
        argument: What it gets.
        limits: What it may use.

    Raises:
        FenceError: It took too long, used too much memory, or broke.
        OSError: No process could be started.
    """
    limits = limits or Limits()
    # -P: a file of the working directory must not take the place of a module.
    command = [sys.executable, "-P", "-m", __name__, reference]
    bounds = [str(limits.cpu_s), str(limits.memory_mb)]
    with subprocess.Popen(
        [*command, *bounds],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as helper:
        try:
            answer, _ = helper.communicate(json.dumps(argument).encode(), limits.wall_s)
        except subprocess.TimeoutExpired:
            raise FenceError(f"it took longer than {limits.wall_s:g} s", final=False) from None
        finally:
            # Also when the caller is interrupted: it would run on unseen.
            helper.kill()
    if helper.returncode != _ANSWERED:
        raise FenceError(_why(helper.returncode, limits), final=True)
    value: JsonValue = json.loads(answer)
    return value


def _why(code: int, limits: Limits) -> str:
    if code == _TOO_LONG:
        return f"its description has more than {_LONGEST_ANSWER:,} bytes"
    if code == _BROKE:
        return f"it is damaged, or needs more than {limits.memory_mb:,} MB of memory"
    # The kernel ends a process that is out of computing time with a signal of its own.
    return f"it needs more than {limits.cpu_s} s of computing or {limits.memory_mb:,} MB of memory"


def main() -> int:
    """Behind the fence: limits first, then the function."""
    reference, cpu_s, memory_mb = sys.argv[1:]
    memory, seconds = int(memory_mb) * 2**20, int(cpu_s)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module, _, name = reference.partition(":")
    function: Fenced = getattr(importlib.import_module(module), name)
    try:
        answer = json.dumps(function(json.load(sys.stdin))).encode()
    except Exception:
        return _BROKE
    if len(answer) > _LONGEST_ANSWER:
        return _TOO_LONG
    sys.stdout.buffer.write(answer)
    return _ANSWERED


if __name__ == "__main__":
    sys.exit(main())
