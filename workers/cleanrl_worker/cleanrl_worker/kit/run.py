"""The companion of a training loop: seeding, device, resume, safe points, checkpoints.

An algorithm file uses five things of it: ``run.rng``, ``run.device``, ``run.make_envs``,
``run.remember`` and ``for step in run.steps(stride)``; see the package's documentation.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from cleanrl_worker.kit import checked_files, checkpoint_files, checkpoints, spaces
from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.bridge import Bridge
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.errors import CheckpointError, UsageError
from cleanrl_worker.kit.facts import environment_facts
from cleanrl_worker.kit.logger import Logger
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.schema import ScriptSchema
from cleanrl_worker.kit.threads import limit_threads
from cleanrl_worker.wrappers.curriculum import schedule_in_force

# How often the loop looks up from its work; commands are obeyed within this time.
_LOOK_EVERY_S = 0.05
# A save may take at most this share of the time between two saves.
_SAVE_SHARE = 0.02


class Stateful(Protocol):
    """Anything whose state can be saved and restored: networks, optimisers, environments."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


class Stopped(SystemExit):
    """The run was asked to stop before its end; carries the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)


class Run:
    """One run of one algorithm file."""

    def __init__(self, args: RunArgs, schema: ScriptSchema) -> None:
        self.args = args
        self.name = schema.path.stem
        self.algorithm = schema.algorithm
        self.step = 0
        self.total = int(args.total_timesteps)
        self.bridge = Bridge()
        self.run_dir = Path(args.run_dir or _default_run_dir(args))
        self.device = _device(args, schema.algorithm)
        _seed_everything(args)
        self.rng = Random(args.seed)
        self._policy: dict[str, Stateful] = {}
        self._objects: dict[str, Stateful] = {}
        self._logger: Logger | None = None
        self._signal: int | None = None
        self._stop = False
        self._early_commands: list[str] = []
        self._saved_step = -1
        self._failed_saves = 0
        self._paced = False
        self._next_look = self._next_save = 0.0

    def make_envs(self, num_envs: int, **options: Any) -> Envs:
        """Build the environments and refuse those that the algorithm cannot act in."""
        options = {"video_dir": self.video_dir, **options}
        if stages := schedule_in_force():
            from cleanrl_worker.wrappers.tasks import CurriculumEnvs

            envs = CurriculumEnvs(stages, num_envs, self._tell_stage, **options)
        else:
            envs = Envs(self.args.env_id, num_envs, **options)
        self.check_spaces(envs)
        return envs

    def _tell_stage(self, stage: dict[str, Any]) -> None:
        self.bridge.send("curriculum_stage", **stage)

    @property
    def video_dir(self) -> str | None:
        """Where videos go, or ``None`` when none are wanted."""
        return str(self.run_dir / "videos") if self.args.capture_video else None

    def check_spaces(self, envs: Any) -> None:
        """Refuse environments whose spaces do not fit the algorithm's declaration."""
        problem = spaces.fit_problem(
            self.name,
            self.algorithm,
            self.args.env_id,
            envs.single_observation_space,
            envs.single_action_space,
        )
        if problem:
            raise UsageError(problem)
        self.bridge.send("facts", environment=environment_facts(self.args.env_id, envs))

    def remember(self, policy: dict[str, Stateful], **objects: Stateful) -> None:
        """Name everything that a checkpoint must hold; on ``--resume`` it is restored here.

        Args:
            policy: what is needed to act; it also goes into the policy file.
            objects: everything else: optimisers, environments, memory, statistics.
        """
        self._policy = policy
        self._objects = {**objects, "rng": self.rng}
        if self.args.resume:
            self._restore(Path(self.args.resume))

    @property
    def resumed(self) -> bool:
        """Whether this run continues from a checkpoint."""
        return bool(self.args.resume)

    def steps(self, stride: int) -> Iterator[int]:
        """Yield the environment step before each turn of the loop.

        Between two turns everything that is not the algorithm happens: commands from the
        worker, signals, metrics, checkpoints.

        Args:
            stride: how many environment steps one turn takes.
        """
        if self.step + stride > self.total:
            raise UsageError(
                f"--total-timesteps {self.total} leaves no room for one turn of {stride} steps "
                f"after step {self.step}; use at least --total-timesteps {self.step + stride}."
            )
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self._logger = Logger(self.args, self.run_dir, self.bridge, self.total)
        self._wait_for_go()
        self._listen_to_signals()
        self._logger.start(self.step)
        # What is there now stays: the collector need not look through all of torch again and again.
        gc.freeze()
        now = time.monotonic()
        self._next_save = now + (self.args.checkpoint_interval_s or float("inf"))
        stop_at = min(self.total, self.args.stop_at or self.total)
        while self.step + stride <= self.total and self.step < stop_at:
            yield self.step
            self.step += stride
            if time.monotonic() >= self._next_look or self._signal is not None:
                self._look_up()
            if self._stop:
                break
        self._finish()

    def log(self, step: int, values: dict[str, Any]) -> None:
        """Log named numbers, such as ``losses/value_loss``."""
        self._logger.scalars(step, values)

    def log_episodes(self, step: int, info: dict[str, Any]) -> None:
        """Log the episodes that ended in a step, as its ``info`` tells."""
        self._logger.episodes(step, info["episodes"])

    def checkpoint(self) -> None:
        """Save the policy and the full state of this moment."""
        if self._saved_step == self.step:
            return
        began = time.monotonic()
        policy = {name: item.state_dict() for name, item in self._policy.items()}
        about = {
            "algorithm": self.name,
            "env_id": self.args.env_id,
            "step": self.step,
            "args": asdict(self.args),
        }
        state = {
            **about,
            "policy": policy,
            "objects": {name: item.state_dict() for name, item in self._objects.items()},
            "random": checkpoints.random_state(),
        }
        folder = self.run_dir / "checkpoints"
        for saved in checkpoints.save(folder, self.step, {**about, "model": policy}, state):
            self.bridge.send(
                "checkpoint_saved",
                path=str(saved.path.relative_to(self.run_dir)),
                step=saved.step,
                sha256=saved.sha256,
                kind=saved.kind,
            )
        checkpoint_files.prune(folder, self.args.keep_checkpoints)
        self._saved_step = self.step
        self._pace_saves(time.monotonic() - began)

    def _pace_saves(self, took: float) -> None:
        """A large replay memory takes seconds to save: then less often than was asked for."""
        interval = max(self.args.checkpoint_interval_s, took / _SAVE_SHARE)
        self._next_save = time.monotonic() + interval
        paced = 0 < self.args.checkpoint_interval_s < interval
        if paced and not self._paced:
            self._tell(
                f"a checkpoint takes {took:.1f} s here: one every {interval:.0f} s, not every "
                f"{self.args.checkpoint_interval_s:g} s, so that saving takes at most "
                f"{_SAVE_SHARE:.0%} of the time"
            )
        self._paced = paced

    def close(self) -> None:
        """Write out what is still buffered."""
        if self._logger is not None:
            self._logger.close(self.step)
            self._logger = None

    def _look_up(self) -> None:
        self._logger.report(self.step)
        early, self._early_commands = self._early_commands, []
        for command in (*early, *self.bridge.commands()):
            self._obey(command)
        if self._signal is not None or self.bridge.lost:
            self._stop = True
        elif self.args.checkpoint_interval_s and time.monotonic() >= self._next_save:
            self._try_checkpoint()
        self._next_look = time.monotonic() + _LOOK_EVERY_S

    def _obey(self, command: str) -> None:
        if command == "checkpoint":
            self._checkpoint_as_asked()
        elif command == "stop":
            self._stop = True
        elif command == "pause":
            self._pause()

    def _pause(self) -> None:
        began = time.monotonic()
        self._try_checkpoint()
        self._logger.report(self.step, force=True)
        self.bridge.send("paused", step=self.step)
        while not self._stop:
            commands = self.bridge.wait()
            if not commands or "stop" in commands or self._signal is not None:
                self._stop = True
            elif "checkpoint" in commands:
                self._checkpoint_as_asked()
            if "resume" in commands:
                break
        self._logger.paused(time.monotonic() - began)
        if not self._stop:
            self.bridge.send("resumed", step=self.step)

    def _checkpoint_as_asked(self) -> None:
        """Save and answer: whoever asked waits for one or the other."""
        problem = self._try_checkpoint()
        if problem:
            self.bridge.send("refused", reason=problem)
        else:
            self.bridge.send("checkpointed", step=self.step)

    def _try_checkpoint(self) -> str:
        """Save; a full disk costs this checkpoint, not the run. Returns why it was not saved."""
        try:
            self.checkpoint()
        except OSError as error:
            self._next_save = time.monotonic() + max(self.args.checkpoint_interval_s, 1.0)
            self._failed_saves += 1
            problem = f"the checkpoint at step {self.step} could not be written: {error}"
            if self._failed_saves == 1:
                self._tell(f"{problem}; the earlier ones are kept, and it is tried again")
            return problem
        else:
            if self._failed_saves:
                self._tell(f"checkpoints are written again; {self._failed_saves} were not")
            self._failed_saves = 0
        return ""

    def _tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self.bridge.send("note", text=text)

    def _finish(self) -> None:
        if self._stop:
            self._try_checkpoint()
            self.close()
            raise Stopped(128 + (self._signal or signal.SIGTERM))
        self.checkpoint()
        if self.args.save_model:
            newest = (
                self.run_dir / "checkpoints" / f"step-{self.step}{checkpoint_files.POLICY_SUFFIX}"
            )
            target = self.run_dir / f"{self.args.exp_name}{checkpoint_files.POLICY_SUFFIX}"
            checked_files.write_checked(target, lambda file: file.write(newest.read_bytes()))
        self.close()

    def _wait_for_go(self) -> None:
        while self.bridge.connected:
            commands = self.bridge.wait()
            if "stop" in commands:
                raise Stopped(128 + signal.SIGTERM)
            if "go" in commands:
                self._early_commands = [command for command in commands if command != "go"]
                return
        if self.bridge.lost:
            raise Stopped(128 + signal.SIGTERM)

    def _listen_to_signals(self) -> None:
        def note(number: int, frame: object) -> None:
            self._signal = number

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, note)

    def _restore(self, where: Path) -> None:
        path, passed_over = checkpoint_files.find(where)
        for problem in passed_over:
            print(f"passed over: {problem}", file=sys.stderr)
        state = checkpoints.load(path)
        for key, wanted in (("algorithm", self.name), ("env_id", self.args.env_id)):
            if state.get(key) != wanted:
                raise CheckpointError(
                    f"{path.name} is a checkpoint of {key} {state.get(key)!r}, this run has "
                    f"{wanted!r}; resume it with the {key} it was made with."
                )
        for group, saved in ((self._policy, "policy"), (self._objects, "objects")):
            for name, item in group.items():
                self._load_into(item, name, state[saved], path)
        for note in getattr(self._objects.get("envs"), "notes", []):
            print(note, file=sys.stderr)
            self.bridge.send("note", text=note)
        checkpoints.restore_random_state(state["random"])
        self.step = self._saved_step = int(state["step"])

    def _load_into(self, item: Stateful, name: str, saved: dict[str, Any], path: Path) -> None:
        try:
            item.load_state_dict(saved[name])
        except UsageError:
            raise
        except (KeyError, RuntimeError, ValueError, IndexError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise CheckpointError(
                f"{path.name} does not fit this run: its {name!r} cannot be restored ({reason}). "
                "Resume with the settings it was made with."
            ) from None


def _default_run_dir(args: RunArgs) -> str:
    env = str(args.env_id).replace("/", "_")
    return os.path.join("runs", f"{env}__{args.exp_name}__{args.seed}__{int(time.time())}")


def _device(args: RunArgs, algorithm: dict[str, Any]) -> torch.device:
    """Where torch computes; settles ``args.cuda`` where it was left open."""
    if "jax" in algorithm["requires"]:
        # JAX refuses a GPU that it cannot use by itself, in `kit.jax_backend`.
        args.cuda = _jax_finds_gpu() if args.cuda is None else args.cuda
        return torch.device("cpu")
    found = torch.cuda.is_available()
    if args.cuda and not found:
        raise UsageError(
            "--cuda was asked for, but torch finds no CUDA device here: leave --cuda out to "
            "train on the CPU, or install a CUDA build of torch on a machine with a GPU."
        )
    args.cuda = found if args.cuda is None else args.cuda
    return torch.device("cuda" if args.cuda else "cpu")


def _jax_finds_gpu() -> bool:
    """Whether JAX has its part for CUDA and there is a GPU; asks without starting JAX."""
    plugins = [plugin.name for plugin in entry_points(group="jax_plugins")]
    return any("cuda" in name for name in plugins) and Path("/dev/nvidiactl").exists()


def _seed_everything(args: RunArgs) -> None:
    random.seed(args.seed)
    np.random.seed(args.seed % 2**32)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    limit_threads(args.torch_threads)
