"""Starting a run on the agent's machine: files that it needs, its configuration, its supervisor."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from mosaic.agent.folder import AgentFolder
from mosaic.agent.orders import Launch, Needed
from mosaic.agent.scanning import belongs, look
from mosaic.config.json_types import JsonValue, object_at
from mosaic.config.paths import HOME_VARIABLE
from mosaic.runs import opening
from mosaic.system import atomic, processes
from mosaic.trainer.launch import supervisor

_PRIVATE_PREFIX = "MOSAIC_"

# The content of a file of the daemon's runs.
Fetch = Callable[[str], Iterator[bytes]]


def prepare(folder: AgentFolder, launch: Launch, fetch: Fetch) -> None:
    """Make this machine's run directory what the daemon says it is.

    Raises:
        OSError: The disk refuses.
    """
    run_dir = folder.run(launch["attempt"]).path
    wanted = {item["path"] for item in launch["files"]}
    # An attempt that was fenced may have left what the daemon has never seen.
    for path in look(run_dir):
        known = path in launch["logs"] or f"{launch['run_id']}/{path}" in wanted
        if belongs(path) and not known and not path.endswith("/"):
            (run_dir / path).unlink(missing_ok=True)
    for item in launch["files"]:
        _bring(folder.home.runs / item["path"], item, fetch)
    for name, size in launch["logs"].items():
        _set_length(run_dir / name, size)
    config = object_at(_moved(launch["config"], launch["runs"], str(folder.home.runs)))
    if launch["script"]:
        extras = object_at(config, "extras")
        script = folder.root / Path(str(extras["script_path"])).name
        atomic.write_text(script, launch["script"], mode=0o700)
        extras["script_path"] = str(script)
    atomic.write_json(folder.config, config, mode=0o600)


def _bring(path: Path, item: Needed, fetch: Fetch) -> None:
    if opening.is_regular(path) and path.stat().st_size == item["size"]:
        with path.open("rb") as handle:
            if hashlib.file_digest(handle, "sha256").hexdigest() == item["sha256"]:
                return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as target:
        for chunk in fetch(item["path"]):
            target.write(chunk)


def _set_length(path: Path, size: int) -> None:
    """Begin a log where the daemon's copy ends, so that offsets mean the same in both.

    What an earlier attempt wrote elsewhere is a hole here; only the daemon is ever asked for it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab"):
        os.truncate(path, size)


def _moved(value: JsonValue, theirs: str, ours: str) -> JsonValue:
    """A document whose paths of the daemon's machine are those of this one."""
    if isinstance(value, dict):
        return {key: _moved(item, theirs, ours) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, theirs, ours) for item in value]
    if isinstance(value, str) and (value == theirs or value.startswith(f"{theirs}/")):
        return ours + value.removeprefix(theirs)
    return value


def start(folder: AgentFolder, launch: Launch, target: str) -> "subprocess.Popen[bytes]":
    """Start the supervisor, which outlives this process."""
    run_dir = folder.run(launch["attempt"]).path
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_PRIVATE_PREFIX) and name not in launch["private"]
    }
    contract = {HOME_VARIABLE: str(folder.root), "MOSAIC_RUN_DIR": str(run_dir)}
    environment = {**launch["usual"], **inherited, **launch["given"], **contract}
    for name in launch["from_node"]:
        if name in os.environ:
            environment[name] = os.environ[name]
    spec: supervisor.Spec = {
        "run_id": launch["run_id"],
        "run_dir": str(run_dir),
        "argv": [
            sys.executable, "-m", launch["module"], "--config", str(folder.config),
            "--grpc", "--grpc-target", target,
        ],
        "env": environment,
        "cwd": str(run_dir),
        "boot_id": processes.boot_id(),
        "restarts": launch["restarts"],
        "attempt": launch["attempt"],
        "site": launch["site"],
        "job": launch["job"],
    }  # fmt: skip
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(supervisor.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"MOSAIC_SUPERVISES": launch["run_id"]},
        start_new_session=True,
    )
    assert child.stdin is not None
    with child.stdin:
        child.stdin.write(json.dumps(spec).encode())
    return child
