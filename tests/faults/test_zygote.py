"""F11 and F12 of the reliability review: a zygote that misbehaves costs no run, and hardly time."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.trainer import Trainer, until

from mosaic.system.processes import parent_of
from mosaic.trainer.launch.warm import WarmProcesses

MakeTrainer = Callable[..., Trainer]
_TWO_THREADS = (
    "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
)
_ROGUE = b"--modules=mosaic.workers.process\0"
_HANGS = "import signal; signal.pause()"


def _zygotes(of: int) -> list[int]:
    """The live zygotes of a process."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if parent_of(pid) == of and b"launch.zygote" in _command(pid)]


def _newcomer(of: int, known: Sequence[int] = ()) -> int:
    """The zygote that has just been started beside the known ones.

    It is waited for: a process has no command line in the moment in which it becomes another
    program.
    """
    (pid,) = until(lambda: set(_zygotes(of)) - set(known), "the zygote is there")
    return pid


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _request(folder: Path) -> dict[str, Any]:
    """A run whose supervisor ends at once: it finds a record of one that has lived."""
    folder.mkdir(exist_ok=True)
    (folder / "exit.json").write_text("{}")
    return {"run_id": "0" * 26, "run_dir": str(folder)}


def test_f11_a_stopped_zygote_is_bypassed_and_replaced(make_trainer: MakeTrainer) -> None:
    """Runs start although their zygote is stopped, and a new zygote takes its place."""
    trainer = make_trainer(warm_start="true").start()
    warm = trainer.submit("short")
    trainer.ended(warm)
    assert trainer.supervisor(warm)["warm"]
    stopped = [pid for pid in _zygotes(trainer.pid) if _ROGUE in _command(pid)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    runs = [trainer.submit("short") for _ in range(2)]
    for run_id in runs:
        assert trainer.ended(run_id).outcome == "completed"
        assert not trainer.supervisor(run_id)["warm"]

    def warm_again() -> bool:
        run_id = trainer.submit("short")
        trainer.ended(run_id)
        return bool(trainer.supervisor(run_id)["warm"])

    until(warm_again, "a new zygote forks runs")
    assert not set(stopped) & set(_zygotes(trainer.pid))


def test_f11_a_request_without_an_answer_has_a_deadline(tmp_path: Path) -> None:
    """A zygote that takes a request and never answers is given up, also by those who queue."""

    async def talk() -> tuple[list[bool], bool, int, int]:
        warm = WarmProcesses(fork_limit_s=0.2)
        try:
            first = await warm.fork(("json",), _request(tmp_path / "run"))
            (before,) = _zygotes(os.getpid())
            os.kill(before, signal.SIGSTOP)
            asked = [warm.fork(("json",), _request(tmp_path / "run")) for _ in range(3)]
            answers = await asyncio.gather(*asked)
            warm.warm_up(("json",))
            after = _newcomer(os.getpid(), known=[before])
            return answers, first, before, after
        finally:
            warm.close()
            warm.reap()

    answers, first, before, after = asyncio.run(talk())
    assert first
    assert answers == [False, False, False]
    assert after != before


def _module(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    return name


def test_f12_a_zygote_with_two_threads_is_asked_once(tmp_path: Path, monkeypatch: Any) -> None:
    """Modules that start a thread cannot be forked: no run waits for that, and no process stays."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    modules = (_module(tmp_path, "starts_a_thread", _TWO_THREADS),)

    async def talk() -> list[bool]:
        warm = WarmProcesses()
        try:
            asked = [await warm.fork(modules, _request(tmp_path / "run")) for _ in range(3)]
            assert warm.warm_up(modules) is None
            warm.reap()
            return asked
        finally:
            warm.close()

    assert asyncio.run(talk()) == [False, False, False]
    until(lambda: not _zygotes(os.getpid()), "the unfit zygote is gone")


def test_f12_no_run_waits_for_a_second_zygote_to_warm_up(tmp_path: Path, monkeypatch: Any) -> None:
    """After a zygote was lost, runs start cold until the next one has greeted, however long."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    modules = (_module(tmp_path, "imports_for_ever", _HANGS),)

    async def talk() -> bool:
        warm = WarmProcesses()
        try:
            assert warm.warm_up(modules) is not None
            os.kill(_newcomer(os.getpid()), signal.SIGKILL)
            while _zygotes(os.getpid()):
                warm.reap()
                await asyncio.sleep(0.01)
            # Far below the minute that a first one gets, far above what an answer takes.
            async with asyncio.timeout(20):
                return await warm.fork(modules, _request(tmp_path / "run"))
        finally:
            warm.close()

    assert asyncio.run(talk()) is False
