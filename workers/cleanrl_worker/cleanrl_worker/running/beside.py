"""Evaluation beside training: the policy of every N-th step is judged by a process of its own.

Training writes the policy to `evaluations/waiting/` and continues at once. The other process
(`cleanrl_worker.programs.evaluate_beside`) has the lowest priority, plays each policy on seeds that
training never sees, and answers with one line. Which policies are judged, and on which seeds,
follows from the step alone: a busy machine delays a result and changes none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.running.bridge import without_bridge
from cleanrl_worker.running.checkpoint_files import POLICY_SUFFIX
from mosaic.system.atomic import replacing

PROGRAM = "cleanrl_worker.programs.evaluate_beside"
FOLDER, WAITING = "evaluations", "waiting"
# Far from the seeds that people use, and fixed: every run is judged on the same episodes.
_HELD_OUT, _OTHER_HELD_OUT = 2_000_000_000, 3_000_000_000
# More environments than any run has: training seeds them from its own seed upwards.
_NEAR = 1_000_000
# After training the rest may have the run's own processor. Until then the process that is there is
# left alone: starting another takes about as long.
_LEFT_ALONE_S = 5.0
_LOOK_EVERY_S = 0.05
_STOP_S = 5.0
_LOWEST_PRIORITY = 19
_MOST_FAILURES = 3


@dataclass(frozen=True)
class Evaluated:
    """The result of one evaluation.

    Attributes:
        step: The step whose policy was judged.
        score: Its mean return on the held-out seeds, with the best actions.
        best: The step of the best policy so far.
        values: The points of the run's curves.
        used_s: The processor time of all evaluations so far.
    """

    step: int
    score: float
    best: int
    values: dict[str, float]
    used_s: float


def first_held_out(seed: int) -> int:
    """The first of the seeds on which policies are judged; those after it follow."""
    return _HELD_OUT if abs(seed - _HELD_OUT) > _NEAR else _OTHER_HELD_OUT


class SideEvaluator:
    """Training's end of the evaluations.

    Args:
        args: The run's arguments.
        run_dir: Where the folder `evaluations` is made.
        tell: Says a sentence to the user.
    """

    def __init__(self, args: RunArgs, run_dir: Path, tell: Callable[[str], None]) -> None:
        self._args = args
        self._folder = run_dir / FOLDER
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._waiting: set[int] = set()
        self._mark = 0
        self._failures = 0
        self._given_up = False
        self._done = 0
        self._earlier_s = self._used_s = self._held_up_s = 0.0

    def start(self, step: int) -> None:
        """Begin to count the steps until the first evaluation."""
        self._mark = (step // self._args.eval_every + 1) * self._args.eval_every

    @property
    def mark(self) -> int | None:
        """The next step whose policy is to be judged; None if none will be."""
        return None if self._given_up else self._mark

    def passed_mark(self, step: int) -> bool:
        """Whether a step was reached whose policy is to be judged."""
        if self._given_up or step < self._mark:
            return False
        self.start(step)
        return True

    def offer(self, step: int, policy: StateDict) -> None:
        """Have a policy judged; only writing it takes training's time."""
        if self._given_up or step in self._waiting:
            return
        began = time.monotonic()
        path = self._folder / WAITING / f"step-{step}{POLICY_SUFFIX}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not synced: after a crash of the machine the run begins from a checkpoint again.
            with replacing(path, sync=False) as file:
                torch.save(policy, file)
            self._waiting.add(step)
            self._wake()
        except OSError as error:
            self._tell(f"the policy of step {step:,} cannot be evaluated: {error}")
        self._held_up_s += time.monotonic() - began

    def results(self) -> Iterator[Evaluated]:
        """The evaluations that are over since the last call; never waits."""
        process = self._process
        if process is None or process.stdout is None:
            return
        try:
            chunk = os.read(process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return
        yield from self._taken(chunk)
        if not chunk:
            yield from self._ended_early(process)

    def finish(self, may_wait: Callable[[], bool]) -> Iterator[Evaluated]:
        """Wait for the policies that are still to be judged.

        Args:
            may_wait: Asked again and again; False ends it.
        """
        began, hurried = time.monotonic(), False
        while True:
            yield from self.results()
            if not self._waiting or self._given_up or not may_wait():
                break
            if not hurried and time.monotonic() - began > _LEFT_ALONE_S:
                hurried = True
                yield from self._end()
            if self._process is None:
                self._wake(low=False)
            time.sleep(_LOOK_EVERY_S)
        yield from self._end()
        if self._done:
            self._tell(self._cost())

    def hold(self, on: bool) -> None:
        """Stand still while the run is paused; the other process continues where it was."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def stop(self) -> None:
        """End the other process; what it has not judged stays in its folder."""
        for _ in self._end():
            pass

    def _end(self) -> Iterator[Evaluated]:
        """End the other process; the results are those that it told before."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        # It has put a policy away once it has told the result: a result that is not read is lost.
        os.set_blocking(process.stdout.fileno(), True)
        yield from self._taken(process.stdout.read())
        process.stdout.close()
        self._unread, self._earlier_s = b"", self._used_s

    def _cost(self) -> str:
        training = max(time.process_time(), 1e-9)
        policies = "1 policy" if self._done == 1 else f"{self._done} policies"
        return (
            f"{policies} evaluated beside training in {self._used_s:.1f} s of processor time, "
            f"training itself used {training:.1f} s; it was held up for {self._held_up_s:.2f} s "
            f"({self._held_up_s / training:.1%})"
        )

    def _wake(self, low: bool = True) -> None:
        """Say that there is something to do; the process is started by the first."""
        if self._process is None:
            self._process = self._launch()
            if low:
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _LOWEST_PRIORITY)
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), b"\n")
        except (BlockingIOError, BrokenPipeError):
            # Full: it has enough to do. Broken: `results` sees that it has ended.
            pass

    def _launch(self) -> subprocess.Popen[bytes]:
        args = self._args
        command = [sys.executable, "-m", PROGRAM, "--folder", str(self._folder)]
        command += ["--seed", str(first_held_out(args.seed)), "--episodes", str(args.eval_episodes)]
        command += [] if args.eval_videos else ["--no-videos"]
        # The run's GPU is training's: small batches are judged as quickly without it.
        variables = {**without_bridge(), "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
        # Pictures are taken, never shown: without it pygame looks for a screen and complains.
        variables.setdefault("SDL_VIDEODRIVER", "dummy")
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
        )
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
        return process

    def _taken(self, chunk: bytes) -> Iterator[Evaluated]:
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            yield from self._read(line)

    def _read(self, line: bytes) -> Iterator[Evaluated]:
        said = json.loads(line)
        if "problem" in said:
            self._given_up = True
            self._tell(f"no evaluation beside training: {said['problem']}")
            return
        # Told twice: the process was stopped before it had put the policy away.
        if said["step"] not in self._waiting:
            return
        self._waiting.discard(said["step"])
        self._done += 1
        self._used_s = self._earlier_s + said.pop("used_s")
        yield Evaluated(**said, used_s=self._used_s)

    def _ended_early(self, process: subprocess.Popen[bytes]) -> Iterator[Evaluated]:
        """It closed its output, which it does only at its end."""
        code = process.wait()
        yield from self._end()
        if self._given_up:
            return
        self._failures += 1
        # The next policy starts it again; what waits is judged first.
        self._given_up = self._failures == _MOST_FAILURES
        more = "it is not started again" if self._given_up else "it is started again"
        self._tell(f"evaluation beside training ended with exit code {code}; {more}")
