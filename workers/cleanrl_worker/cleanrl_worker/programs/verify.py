"""Trains a piece of an earlier run again and writes `certificate.json`.

Everything that is compared is read by the process that trained: its own packages, its own machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from cleanrl_worker.kit.errors import CheckpointError, TrainingError, UsageError
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.running import checkpoints
from cleanrl_worker.running.bridge import Bridge
from cleanrl_worker.running.checkpoint_files import STATE_SUFFIX
from cleanrl_worker.running.control import Control
from cleanrl_worker.running.handover import accept
from cleanrl_worker.running.parsing import from_values
from cleanrl_worker.running.schema import SCRIPTS, read_schema
from cleanrl_worker.running.state_digest import compare
from mosaic.config.json_types import JsonValue, object_at
from mosaic.config.model import SavedState, VerifyRequest
from mosaic.runs import certificate
from mosaic.runs.certificate import Certificate, Change, CheckpointCheck, StateCheck
from mosaic.runs.opening import open_regular, read_document
from mosaic.runs.provenance import collect
from mosaic.system import atomic

# Arguments of a run that are not about learning: where it writes, what it keeps, where it stops.
_NOT_COMPARED = frozenset(
    {
        "exp_name",
        "run_dir",
        "tensorboard_dir",
        "resume",
        "stop_at",
        "checkpoint_interval_s",
        "keep_checkpoints",
        "track",
        "wandb_project_name",
        "wandb_entity",
        "capture_video",
        "save_model",
        "upload_model",
        "hf_entity",
    }
)


class Verification:
    """One piece of one run, trained again."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._algorithm: str = options.algorithm
        self._arguments: dict[str, JsonValue] = json.loads(options.arguments)
        self._request = VerifyRequest.model_validate_json(options.request)
        self._run_dir = Path(options.run_dir)
        self._run_id: str = options.run_id
        self.bridge: Bridge | None = None

    def carry_out(self) -> Certificate:
        """Train the piece and compare; the certificate is also in the run directory."""
        request = self._request
        files = [self._check(saved) for saved in (request.start, request.end)]
        reason = ""
        if files[0]["found_sha256"] == files[0]["recorded_sha256"]:
            reason = self._train()
        else:
            reason = "its first checkpoint has changed"
        self._wait_for_go()
        recorded, problem = _loaded(Path(request.run_dir) / request.end.path)
        trained, unsaved = _loaded(
            self._run_dir / "checkpoints" / f"step-{request.end.step}{STATE_SUFFIX}"
        )
        state = None
        if recorded is not None and trained is not None:
            compared = compare(recorded, trained)
            state = StateCheck(
                values=compared.values,
                recorded_digest=compared.digests[0],
                trained_digest=compared.digests[1],
                different=list(compared.different),
                first_difference=compared.first_difference,
            )
        reason = reason or problem or unsaved
        done = self._certificate(files, recorded, trained, state, reason)
        atomic.write_text(self._run_dir / certificate.FILE, json.dumps(done, indent=2) + "\n")
        return done

    def _check(self, saved: SavedState) -> CheckpointCheck:
        """Hash a checkpoint and compare it with what the run recorded when it was written."""
        found = ""
        try:
            descriptor = open_regular(Path(self._request.run_dir), saved.path)
            with os.fdopen(descriptor, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            pass  # the certificate says that there is no file that can be read
        return CheckpointCheck(
            path=saved.path, step=saved.step, recorded_sha256=saved.sha256, found_sha256=found
        )

    def _train(self) -> str:
        """Train from the first checkpoint to the step of the second; why it was not possible."""
        script = importlib.import_module(f"cleanrl_worker.cleanrl.{self._algorithm}")
        schema = read_schema(SCRIPTS / f"{self._algorithm}.py")
        run: Run | None = None
        try:
            args = from_values(script.Args, schema, self._arguments)
            run = Run(args, schema)
            self.bridge = run.bridge
            script.train(args, run)
        except (UsageError, TrainingError) as error:
            return str(error)
        except Exception as error:
            # Whatever a changed setting or package breaks belongs into the certificate.
            traceback.print_exc()
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        finally:
            if run is not None:
                run.close()
        return ""

    def _wait_for_go(self) -> None:
        """Without training nothing has waited for the worker yet, and nothing can be said."""
        if self.bridge is None:
            self.bridge = Bridge()
            Control(self.bridge).start()

    def _certificate(
        self,
        files: list[CheckpointCheck],
        recorded: StateDict | None,
        trained: StateDict | None,
        state: StateCheck | None,
        reason: str,
    ) -> Certificate:
        request = self._request
        then = read_document(Path(request.run_dir) / "provenance.json") or {}
        env_id = str(self._arguments.get("env_id", ""))
        now = collect(sys.argv, {}, env_id)
        packages, others = _package_changes(object_at(then, "packages"), object_at(now, "packages"))
        settings = self._setting_changes(recorded, trained)
        found = certificate.findings(files, settings, packages, state, reason)
        return Certificate(
            schema_version=1,
            verdict=certificate.verdict(found, state),
            findings=found,
            run_id=request.run_id,
            verified_by=self._run_id,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            from_step=request.start.step,
            to_step=request.end.step,
            checkpoints=files,
            state=state,
            not_trained=reason,
            settings=settings,
            packages=packages,
            other_packages=others,
            code=_code_change(then.get("git"), now["git"]),
            machine_then=certificate.machine(then, _threads(recorded)),
            machine_now=certificate.machine(now, _threads(trained)),
        )

    def _setting_changes(
        self, recorded: StateDict | None, trained: StateDict | None
    ) -> list[Change]:
        """Which arguments the configuration gives now that the checkpoint was not made with."""
        if recorded is None:
            return []
        then = recorded["args"]
        # Where training was not possible, only what the configuration names is known.
        now = self._arguments if trained is None else trained["args"]
        names = [name for name in now if name in then and name not in _NOT_COMPARED]
        return certificate.changes(
            {name: then[name] for name in names}, {name: now[name] for name in names}
        )


def _loaded(path: Path) -> tuple[StateDict | None, str]:
    if not path.is_file():
        return None, f"there is no {path.name}"
    try:
        return checkpoints.load(path), ""
    except CheckpointError as error:
        return None, str(error)


def _threads(state: StateDict | None) -> JsonValue:
    threads: JsonValue = state["args"].get("torch_threads") if state is not None else None
    return threads


def _package_changes(
    then: Mapping[str, JsonValue], now: Mapping[str, JsonValue]
) -> tuple[list[Change], list[Change]]:
    """Packages of another version: those that this training has loaded, and the others."""
    changed = certificate.changes(then, now) if then else []
    owners = metadata.packages_distributions()
    loaded = {name.partition(".")[0] for name in sys.modules}
    used = {dist for name in loaded for dist in owners.get(name, ())}
    return (
        [change for change in changed if change["name"] in used],
        [change for change in changed if change["name"] not in used],
    )


def _code_change(then: object, now: object) -> Change | None:
    """MOSAIC's own commit, where it is another; the numbers say whether that matters."""
    one, other = (_commit(git) for git in (then, now))
    return None if one == other else Change(name="commit", then=one, now=other)


def _commit(git: object) -> JsonValue:
    if not isinstance(git, dict):
        return None
    diff = git.get("diff_sha256")
    return f"{git.get('commit')} with changes {str(diff)[:12]}" if diff else str(git.get("commit"))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Take what the worker hands over, or read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--arguments", required=True, help="of the algorithm, as JSON")
    parser.add_argument("--request", required=True, help="which piece of which run, as JSON")
    parser.add_argument("--run-dir", required=True)
    parser.add_argument("--run-id", default="")
    values = accept()
    if values is None:
        return parser.parse_args(arguments)
    return argparse.Namespace(**values)


def main() -> int:
    """Verify; the exit status is 0 when everything is the same, otherwise 1."""
    verification = Verification(parse())
    try:
        done = verification.carry_out()
        if done["verdict"] == "verified":
            return 0
        reason = f"not verified: {'; '.join(done['findings'])}"[:500]
        print(reason, file=sys.stderr, flush=True)
    except Exception as error:
        traceback.print_exc()
        reason = f"the verification itself failed: {type(error).__name__}: {error}"
    (verification.bridge or Bridge()).send("run_failed", reason=reason)
    return 1


if __name__ == "__main__":
    sys.exit(main())
