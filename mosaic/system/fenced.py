"""Work on what others wrote, in a process of its own that can be stopped.

A thread cannot be stopped, and one that holds the interpreter's lock stops every other. So what
may run for ever, eat all memory or end the process, such as reading a pickle or calling a function
of another package, is done by another interpreter with limits on time and memory. It gets one
JSON value and answers with another; in between it may ask its caller.

`call` uses a process once. A `Helper` keeps its process, because starting one takes longer than
most calls.
"""

import importlib
import json
import math
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mosaic.errors import FenceError

if TYPE_CHECKING:
    from mosaic.config.json_types import JsonValue

# What each message begins with: its kind and how many bytes follow.
_HEADER = struct.Struct(">cI")
_CALL, _QUESTION, _REPLY, _ANSWER, _BROKE, _TOO_LONG = b"C", b"Q", b"R", b"A", b"B", b"L"
# An exception's text is shown to a person.
_LONGEST_REASON = 1000


@dataclass(frozen=True)
class Limits:
    """What the helper may use; time counts from the call, and again from each answered question.

    Attributes:
        cpu_s: Computing time, the limit that counts: it does not depend on how busy the machine is.
        wall_s: Real time, for one that waits instead of computing. Generous, because on a busy
            machine the interpreter alone takes seconds to start.
        memory_mb: Address space.
        answer_mb: How long an answer or a question may be; it is read into the caller's memory.
    """

    cpu_s: int = 3
    wall_s: float = 20.0
    memory_mb: int = 1024
    answer_mb: int = 4


Reply = Callable[["JsonValue"], bytes]


class Ask(Protocol):
    """How a function behind the fence asks its caller."""

    def __call__(self, question: "JsonValue") -> bytes:
        """The caller's reply."""


def call(
    reference: str,
    argument: "JsonValue",
    limits: Limits | None = None,
    reply: Reply | None = None,
) -> "JsonValue":
    """Call a function in a process that is started for it and ended with it; see `Helper.call`."""
    helper = Helper(limits)
    try:
        return helper.call(reference, argument, reply)
    finally:
        helper.close()


class Helper:
    """A process for calls behind the fence, one at a time.

    It is started by the first call, and again by the next one after it was stopped. Only `close`
    may be called from another thread.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._deadline = 0.0
        # Held during a call: the pipes must not be closed while it waits for them.
        self._busy = threading.Lock()

    def call(
        self, reference: str, argument: "JsonValue", reply: Reply | None = None
    ) -> "JsonValue":
        """Call a function in the helper.

        Args:
            reference: `package.module:function`; it takes a JSON value and returns another. With
                a `reply` it also takes an `Ask`.
            argument: What it gets.
            reply: Answers its questions. What it raises ends the call.

        Raises:
            FenceError: It took too long, used too much memory, broke, or ended.
            OSError: No process could be started.
        """
        order = {
            "function": reference,
            "argument": argument,
            "asks": reply is not None,
            "cpu_s": self._limits.cpu_s,
            "wall_s": self._limits.wall_s,
            "longest": self._limits.answer_mb * 2**20,
        }
        with self._busy:
            kind, content = self._converse(json.dumps(order).encode(), reply)
        if kind != _ANSWER:
            raise FenceError(self._why(kind, content), final=True)
        value: JsonValue = json.loads(content)
        return value

    def close(self) -> None:
        """End the process; a call that waits for it fails."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._busy:
            self._stop()

    def _converse(self, order: bytes, reply: Reply | None) -> tuple[bytes, bytes]:
        """The last message of a call."""
        kind = b""
        try:
            process = self._process or self._start()
            self._send(process, _CALL, order)
            kind, content = self._receive(process)
            while kind == _QUESTION and reply is not None:
                self._send(process, _REPLY, reply(json.loads(content)))
                kind, content = self._receive(process)
            return kind, content
        finally:
            # After anything but an answer its state is unknown, also when the caller was
            # interrupted: it would run on unseen.
            if kind != _ANSWER:
                self._stop()

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise FenceError("it is being shut down", final=False)
        # -P: a file of the working directory must not take the place of a module.
        command = [sys.executable, "-P", "-m", __name__, str(self._limits.memory_mb)]
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What a package prints is no answer, and a pipe that no one reads would fill and block
            # it.
            stderr=subprocess.DEVNULL,
            # A group of its own, so that what it started can be ended with it.
            start_new_session=True,
        )
        # Waiting is done by `poll`, which has a deadline; a write to a helper that does not
        # read would block as long as a read does.
        os.set_blocking(_in(process), False)
        os.set_blocking(_out(process), False)
        self._process = process
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _end(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, process: "subprocess.Popen[bytes]", kind: bytes, content: bytes) -> None:
        self._deadline = time.monotonic() + self._limits.wall_s
        left = memoryview(_HEADER.pack(kind, len(content)) + content)
        while left:
            self._await(_in(process), select.POLLOUT)
            try:
                left = left[os.write(_in(process), left) :]
            except BrokenPipeError:
                raise FenceError(self._ended(process), final=True) from None

    def _receive(self, process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
        kind, length = _HEADER.unpack(self._exactly(process, _HEADER.size))
        # Refused by its header: the answer never reaches this process's memory.
        if length > self._limits.answer_mb * 2**20:
            return _TOO_LONG, b""
        return kind, self._exactly(process, length)

    def _exactly(self, process: "subprocess.Popen[bytes]", count: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < count:
            self._await(_out(process), select.POLLIN)
            piece = os.read(_out(process), min(count - len(pieces), 2**20))
            if not piece:
                raise FenceError(self._ended(process), final=True)
            pieces += piece
        return bytes(pieces)

    def _await(self, descriptor: int, event: int) -> None:
        waiting = select.poll()
        waiting.register(descriptor, event)
        if not waiting.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
            raise FenceError(f"it took longer than {self._limits.wall_s:g} s", final=False)

    def _ended(self, process: "subprocess.Popen[bytes]") -> str:
        """Why there is no process any more."""
        if self._closed:
            return "it is being shut down"
        code, limits = _end(process), self._limits
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return (
                f"it needs more than {limits.cpu_s} s of computing "
                f"or {limits.memory_mb:,} MB of memory"
            )
        if code == -signal.SIGALRM:
            return f"it took longer than {limits.wall_s:g} s"
        return f"it ended with exit code {code} instead of answering"

    def _why(self, kind: bytes, content: bytes) -> str:
        limits = self._limits
        if kind == _TOO_LONG:
            return f"its answer has more than {limits.answer_mb:,} MB"
        reason = content.decode(errors="replace")
        if reason.startswith(MemoryError.__name__):
            return f"it needs more than {limits.memory_mb:,} MB of memory"
        return f"it is damaged or failed: {reason}"


def _end(process: "subprocess.Popen[bytes]") -> int:
    """End a helper and what it started; its exit code, the signal's if it had ended by one."""
    if process.returncode is None:
        # Its group has its number, which is its own until it has been waited for.
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _in(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdin is not None
    return process.stdin.fileno()


def _out(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


# ---------------------------------------------------------------- behind the fence


class _Caller:
    """The other side, as seen from the helper."""

    def __init__(self) -> None:
        # Its own copies. A function that prints or reads must not disturb the conversation.
        self._input, self._output = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)
        self._cpu_s, self._wall_s, self._longest = 0, 0.0, 0

    def serve(self) -> None:
        """Answer calls until the caller is gone."""
        while order := self._receive():
            wanted = json.loads(order)
            self._cpu_s, self._wall_s = wanted["cpu_s"], wanted["wall_s"]
            self._longest = wanted["longest"]
            self._limit()
            kind, content = self._carry_out(wanted)
            signal.alarm(0)
            self._send(kind, content)

    def ask(self, question: "JsonValue") -> bytes:
        """Ask the caller; its time to think is not counted."""
        signal.alarm(0)
        self._send(_QUESTION, json.dumps(question).encode())
        reply = self._receive()
        if reply is None:
            raise SystemExit
        self._limit()
        return reply

    def _carry_out(self, wanted: "dict[str, JsonValue]") -> tuple[bytes, bytes]:
        try:
            module, _, name = str(wanted["function"]).partition(":")
            function = getattr(importlib.import_module(module), name)
            more = (self.ask,) if wanted["asks"] else ()
            answer = json.dumps(function(wanted["argument"], *more)).encode()
        except BaseException as error:
            # Also `SystemExit`: a function that calls `sys.exit` has failed to answer.
            return _BROKE, f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(
                errors="replace"
            )
        return (_ANSWER, answer) if len(answer) <= self._longest else (_TOO_LONG, b"")

    def _limit(self) -> None:
        """Begin a new measure of time.

        The kernel keeps both, because what hangs here may hold the interpreter's lock. The alarm
        is for a caller that was killed and cannot end this process any more; while it lives its
        own deadline comes first.
        """
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = math.ceil(used.ru_utime + used.ru_stime)
        _lower(resource.RLIMIT_CPU, spent + self._cpu_s)
        signal.alarm(math.ceil(self._wall_s) + 5)

    def _send(self, kind: bytes, content: bytes) -> None:
        left = memoryview(_HEADER.pack(kind, len(content)) + content)
        while left:
            left = left[os.write(self._output, left) :]

    def _receive(self) -> bytes | None:
        header = self._exactly(_HEADER.size)
        return None if header is None else self._exactly(_HEADER.unpack(header)[1])

    def _exactly(self, count: int) -> bytes | None:
        pieces = bytearray()
        while len(pieces) < count:
            piece = os.read(self._input, min(count - len(pieces), 2**20))
            if not piece:
                return None
            pieces += piece
        return bytes(pieces)


def _lower(kind: int, wanted: int) -> None:
    """Set a limit that a later call may raise again; one of the machine's own may be lower."""
    hard = resource.getrlimit(kind)[1]
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (soft, hard))


def main() -> None:
    """Behind the fence: limits first, then calls."""
    _lower(resource.RLIMIT_AS, int(sys.argv[1]) * 2**20)
    # A helper that is killed for its memory would otherwise leave all of it on the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Whatever the parent ignores: these two end a helper that hangs.
    for number in (signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    with suppress(BrokenPipeError):
        _Caller().serve()
    # Threads that a function left behind must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
