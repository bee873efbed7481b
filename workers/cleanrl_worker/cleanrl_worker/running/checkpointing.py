"""When a run saves and how it resumes: everything that must survive, named once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import CheckpointError, UsageError
from cleanrl_worker.kit.types import StateDict, Stateful
from cleanrl_worker.running import checked_files, checkpoint_files, checkpoints
from cleanrl_worker.running.bridge import Bridge
from cleanrl_worker.running.checkpoint_files import POLICY_SUFFIX
from mosaic.config.keeping import KeepPolicy
from mosaic.curves.names import EPISODES
from mosaic.system.shortage import shortage

Result = TypeVar("Result")

# A save may take at most this share of the time between two saves.
SAVE_SHARE = 0.02
# After a failed save: soon enough to catch the moment when the disk has room again.
_RETRY_S = 1.0


class Checkpointer:
    """Saves a run at its interval, and brings one back.

    Args:
        args: The run's arguments.
        env_id: The environment, which a checkpoint must match.
        name: The algorithm file's name.
        run_dir: Where the folder `checkpoints` is made.
        bridge: Tells the worker what was saved.
        tell: Says a sentence to the user.
        score: The return of this moment, by which the best checkpoint is found where no
            evaluations judge it; None before the first episode has ended.
    """

    def __init__(
        self,
        args: RunArgs,
        env_id: str,
        name: str,
        run_dir: Path,
        bridge: Bridge,
        tell: Callable[[str], None],
        score: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._args = args
        self._env_id = env_id
        self._name = name
        self._run_dir = run_dir
        self._bridge = bridge
        self._tell = tell
        self._score = score
        self._keep = _policy(args.keep_checkpoints)
        self._scores: dict[int, float] = {}
        self._undecided: set[int] = set()
        self._mark: int | None = None
        self._policy: Mapping[str, Stateful] = {}
        self._objects: Mapping[str, Stateful] = {}
        self._judges: Mapping[str, Stateful] = {}
        self._saved_step = -1
        self._next_save = 0.0
        self._failed = 0
        self._slow = False

    def remember(
        self,
        policy: Mapping[str, Stateful],
        objects: Mapping[str, Stateful],
        judges: Mapping[str, Stateful],
        shown: Mapping[str, Stateful],
    ) -> None:
        """Name what is needed to act, everything else that changes, and what judges actions.

        Args:
            policy: What is needed to act.
            objects: Everything else that changes.
            judges: What judges actions; goes into the policy file too.
            shown: The same for what `objects` hold already, so that it is not saved twice.
        """
        self._judges = {**judges, **shown}
        self._policy, self._objects = policy, {**judges, **objects}

    def start(self, step: int) -> None:
        """Begin to count the time, and the steps, until the first save."""
        self._next_save = time.monotonic() + self._args.checkpoint_interval_s
        self._mark = self._keep.next_save(step)

    @property
    def mark(self) -> int | None:
        """The next step at which `every:N` wants a checkpoint; None without such a wish."""
        return self._mark

    @property
    def due(self) -> bool:
        """Whether the interval is over; never when only the end is to be saved."""
        return bool(self._args.checkpoint_interval_s) and time.monotonic() >= self._next_save

    def passed_mark(self, step: int) -> bool:
        """Whether a step was reached at which `every:N` wants a checkpoint, whatever the clock."""
        if self._mark is None or step < self._mark:
            return False
        self._mark = self._keep.next_save(step)
        return True

    def save(self, step: int) -> None:
        """Save the policy and the full state of this moment.

        Raises:
            OSError: The disk refuses it.
        """
        if self._saved_step == step:
            return
        began = time.monotonic()
        about, policy = self._about(step), self._weights()
        state: StateDict = {
            **about,
            "policy": policy,
            "objects": _states(self._objects),
            "random": checkpoints.random_state(),
        }
        folder = self._run_dir / "checkpoints"
        shown = {**policy, **_states(self._judges)}
        for saved in checkpoints.save(folder, step, {**about, "model": shown}, state):
            self._bridge.send(
                "checkpoint_saved",
                path=str(saved.path.relative_to(self._run_dir)),
                step=saved.step,
                sha256=saved.sha256,
                kind=saved.kind,
            )
        # Only now: until the new one is complete, the old ones are the run's only way back.
        score = None if self._args.eval_every else self._score()
        if score is not None:
            self._scores[step] = score
        self._prune()
        self._saved_step = step
        self._plan_next(time.monotonic() - began)

    def policy(self, step: int) -> StateDict:
        """The content of a policy file of this moment."""
        model = {**self._weights(), **_states(self._judges)}
        content = checkpoints.to_plain({**self._about(step), "model": model})
        assert isinstance(content, dict)
        return {"format": checkpoints.FORMAT, **content}

    @property
    def keeps_best(self) -> bool:
        """Whether the best checkpoint stays."""
        return self._keep.best

    def await_score(self, step: int) -> None:
        """Keep a checkpoint until an evaluation has judged it: it may turn out to be the best."""
        self._undecided.add(step)

    def take_score(self, step: int, score: float) -> None:
        """An evaluation has judged a checkpoint."""
        self._undecided.discard(step)
        self._scores[step] = score
        self._prune()

    def decide(self) -> None:
        """No further evaluation will come."""
        self._undecided.clear()
        self._prune()

    def _about(self, step: int) -> StateDict:
        return {
            "algorithm": self._name,
            "env_id": self._env_id,
            "step": step,
            "args": asdict(self._args),
        }

    def _weights(self) -> StateDict:
        return _states(self._policy)

    def _prune(self) -> None:
        folder = self._run_dir / "checkpoints"
        checkpoint_files.prune(folder, self._keep, self._scores, self._undecided)

    def try_save(self, step: int) -> str:
        """Save; a full disk costs this checkpoint, not the run. Returns why it was not saved."""
        try:
            self.save(step)
        except OSError as error:
            wait = max(self._args.checkpoint_interval_s, _RETRY_S)
            self._next_save = time.monotonic() + wait
            self._failed += 1
            problem = f"the checkpoint at step {step} could not be written: {error}"
            # Once, not at every attempt: a disk may stay full for hours.
            if self._failed == 1:
                self._tell(f"{problem}; the earlier ones are kept, and it is tried again")
            return problem
        if self._failed:
            self._tell(f"checkpoints are written again; {self._failed} were not")
        self._failed = 0
        return ""

    def wait_for_room(self, write: Callable[[], Result], may_wait: Callable[[], bool]) -> Result:
        """Write what the run was made for, as soon as the disk has room for it.

        Args:
            write: Writes it; tried again while the disk is full.
            may_wait: Asked before each new attempt; False once the run is told to stop.

        Raises:
            OSError: The disk refuses it for another reason, or the run is told to stop.
        """
        told = False
        while True:
            try:
                return write()
            except OSError as error:
                if not shortage(error) or not may_wait():
                    raise
                if not told:
                    self._tell(f"the end of training waits for room on the disk: {error}")
                told = True
                time.sleep(_RETRY_S)

    def export_policy(self, step: int) -> Path:
        """Copy the policy of a saved step to where `--save-model` promises it; returns the file."""
        newest = self._run_dir / "checkpoints" / f"step-{step}{POLICY_SUFFIX}"
        target = self._run_dir / f"{self._args.exp_name}{POLICY_SUFFIX}"
        checked_files.write_checked(target, lambda file: file.write(newest.read_bytes()))
        return target

    def restore(self, where: Path) -> int:
        """Bring everything that is remembered back; returns the step that was reached.

        Raises:
            CheckpointError: There is no valid checkpoint, or it does not fit this run.
        """
        if where.suffix == POLICY_SUFFIX and where.is_file():
            return self._take_weights(where)
        path, passed_over = checkpoint_files.find(where)
        for problem in passed_over:
            print(f"passed over: {problem}", file=sys.stderr)
        state = checkpoints.load(path)
        self._refuse_others(path, state)
        for group, saved in ((self._policy, "policy"), (self._objects, "objects")):
            for name, item in group.items():
                # Earlier releases did not keep the newest episodes: their return starts again.
                if name == EPISODES and name not in state[saved]:
                    continue
                _load_into(item, name, state[saved], path)
        for note in getattr(self._objects.get("envs"), "notes", []):
            self._tell(note)
        # Last: restoring environments draws from the global generators.
        checkpoints.restore_random_state(state["random"])
        self._saved_step = int(state["step"])
        return self._saved_step

    def _take_weights(self, path: Path) -> int:
        """Begin with the weights of a policy; all else that a run has starts fresh, at step 0."""
        state = checkpoints.load(path)
        self._refuse_others(path, state)
        weights = state.get("model")
        if not isinstance(weights, dict):
            raise CheckpointError(f"{path.name} is no policy that a bundled algorithm has saved.")
        for name, item in self._policy.items():
            _load_into(item, name, weights, path)
        # A target that was drawn at random would pull the weights away again.
        for name, item in self._objects.items():
            same = [saved for saved in weights.values() if _same_names(item, saved)]
            if name.startswith("target") and len(same) == 1:
                _load_into(item, name, {name: same[0]}, path)
        self._tell(
            f"only the weights of {path.name} are used: optimiser, memory and counters start fresh"
        )
        return 0

    def _refuse_others(self, path: Path, state: StateDict) -> None:
        for key, wanted in (("algorithm", self._name), ("env_id", self._env_id)):
            if state.get(key) != wanted:
                raise CheckpointError(
                    f"{path.name} is a checkpoint of {key} {state.get(key)!r}, this run has "
                    f"{wanted!r}; resume it with the {key} it was made with."
                )

    def _plan_next(self, took: float) -> None:
        """A large replay memory takes seconds to save: then less often than was asked for."""
        asked = self._args.checkpoint_interval_s
        interval = max(asked, took / SAVE_SHARE)
        self._next_save = time.monotonic() + interval
        slow = 0 < asked < interval
        if slow and not self._slow:
            self._tell(
                f"a checkpoint takes {took:.1f} s here: one every {interval:.0f} s, not every "
                f"{asked:g} s, so that saving takes at most {SAVE_SHARE:.0%} of the time"
            )
        self._slow = slow


def _states(group: Mapping[str, Stateful]) -> StateDict:
    return {name: item.state_dict() for name, item in group.items()}


def _policy(text: str) -> KeepPolicy:
    try:
        return KeepPolicy.parse(text)
    except ValueError as error:
        raise UsageError(f"--keep-checkpoints: {error}") from None


def _load_into(item: Stateful, name: str, saved: StateDict, path: Path) -> None:
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


def _same_names(item: Stateful, saved: object) -> bool:
    """Whether saved weights are those of a network like this one."""
    return isinstance(saved, dict) and item.state_dict().keys() == saved.keys()
