"""A program that one thread waits for and another can end."""

import subprocess
import sys
import threading

import psutil
import pytest
from support.trainer import until

from mosaic.errors import StoppedError
from mosaic.system.stoppable import Stoppable

FOREVER = [sys.executable, "-c", "import time; time.sleep(10_000)"]


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children())


def test_a_program_that_ends_by_itself_is_heard() -> None:
    """What it printed and its exit status arrive; stopping it afterwards does nothing."""
    program = Stoppable()
    words = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = program.run([sys.executable, "-c", words], 60)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    program.stop()


def test_stopping_ends_the_program_and_the_waiting() -> None:
    """The thread that waits is free again, and no process is left."""
    before, program, raised = _children(), Stoppable(), []

    def wait() -> None:
        try:
            program.run(FOREVER, 10_000)
        except StoppedError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: _children() - before, "it has begun")
    program.stop()
    waiting.join()
    assert raised
    assert _children() == before


def test_what_was_stopped_before_it_began_does_not_begin() -> None:
    """A window that closes while its helper is about to start leaves none behind."""
    before, program = _children(), Stoppable()
    program.stop()
    with pytest.raises(StoppedError, match="before it began"):
        program.run(FOREVER, 10_000)
    assert _children() == before


def test_a_program_that_takes_too_long_is_killed() -> None:
    """Its time is limited, and nothing is left of it."""
    before = _children()
    with pytest.raises(subprocess.TimeoutExpired):
        Stoppable().run(FOREVER, 0.1)
    assert _children() == before
