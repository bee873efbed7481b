"""Calling what a third party wrote: for a limited time, and with every failure in one sentence.

A package that hangs must not stop `mosaic train ppo`. So its code runs in a thread of its own,
which is abandoned when the time is up. A thread cannot be stopped, but it ends with the process,
and an import that waits blocks only those who import the same module.

That is enough for a command or a window, which its user can end. The daemon serves others and runs
for weeks, so it asks workers in a process with limits (`mosaic.system.fenced`), where this module
turns what they raise into a sentence. Commands do not use such a process: starting an interpreter
takes longer than most of them do.
"""

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from mosaic.errors import StrangerError

Result = TypeVar("Result")


def load(reference: str) -> Callable[..., object]:
    """The function behind `package.module:function`.

    Raises:
        StrangerError: The reference is malformed, or names nothing that can be called.
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise StrangerError(f"{reference!r} is not of the form package.module:function")
    found: object = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise StrangerError(f"{module} has no function {name!r}")
    return found


def call(function: Callable[[], Result], limit_s: float) -> Result:
    """Call a function that may raise, hang, print or try to end the process.

    Args:
        function: What to call.
        limit_s: How long to wait for it.

    Raises:
        StrangerError: It did not return in time, or tried to end the process.
        Exception: What it raised itself.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:  # also SystemExit, with which a package may end on import
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True, name="third-party")
    # What it prints must not get into the JSON or the list that a command prints.
    with contextlib.redirect_stdout(sys.stderr):
        thread.start()
        thread.join(limit_s)
    if results:
        return results[0]
    if not errors:
        raise StrangerError(f"it did not answer within {limit_s:g} s")
    if not isinstance(errors[0], Exception):
        raise StrangerError(f"it tried to end the process ({type(errors[0]).__name__})")
    raise errors[0]


def kind(value: object) -> str:
    """What a wrong answer is, in words."""
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def sentence(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, StrangerError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
