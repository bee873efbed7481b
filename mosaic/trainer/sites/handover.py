"""What an agent on another machine needs to start a run: configuration, variables, files."""

import glob
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from mosaic.agent.orders import Launch, Needed
from mosaic.agent.scanning import LOGS, belongs, look
from mosaic.config.paths import Home
from mosaic.errors import StorageError
from mosaic.runs import opening
from mosaic.runs.metric_writer import DAEMONS_MARK, FOLDER
from mosaic.runs.opening import read_document
from mosaic.trainer.core.states import Run
from mosaic.trainer.launch.executor import LaunchSpec

_OWN_CONFIG = "config.json"
_LOG_NAMES = ("stdout.log", "stderr.log")


def describe(home: Home, run: Run, spec: LaunchSpec, job: str) -> Launch:
    """Everything that an agent needs.

    Raises:
        StorageError: The worker's configuration is gone.
        OSError: The disk refuses.
    """
    config = read_document(home.configs / f"worker-{run.run_id}.json")
    if config is None:
        raise StorageError(f"the configuration of run {run.run_id} is gone; submit it again")
    run_dir = home.run_dir(run.run_id)
    return Launch(
        run_id=run.run_id,
        attempt=run.attempt,
        job=job,
        site=run.site,
        module=run.module,
        restarts=spec.restarts,
        usual=dict(spec.usual),
        given=dict(spec.given),
        private=sorted(spec.private),
        from_node=list(spec.from_node),
        config=config,
        runs=str(home.runs),
        script=_script(config),
        files=[*_own_files(home, run_dir), *_other_files(home, run, config)],
        logs={f"{LOGS}{name}": _size(run_dir / LOGS / name) for name in _LOG_NAMES},
    )


def _script(config: Mapping[str, object]) -> str:
    """The user's own script, which is in no run and so has to travel as text."""
    extras = config.get("extras")
    named = extras.get("script_path") if isinstance(extras, dict) else None
    if not isinstance(named, str) or not named:
        return ""
    # Resolved first: it is the user's own file, and may well be a link.
    path = Path(named).expanduser().resolve()
    return opening.read_regular(path.parent, path.name).decode()


def _own_files(home: Home, run_dir: Path) -> Iterator[Needed]:
    """What the attempts before have left, which the next one continues from."""
    yield _needed(home, run_dir / _OWN_CONFIG)
    # Curves that the daemon keeps in a worker's place stay its own.
    daemons = opening.is_regular(run_dir / FOLDER / DAEMONS_MARK)
    for path in sorted(look(run_dir)):
        kept_here = daemons and path.startswith(f"{FOLDER}/")
        if belongs(path) and not path.endswith("/") and not path.startswith(LOGS) and not kept_here:
            yield _needed(home, run_dir / path)


def _other_files(home: Home, run: Run, config: Mapping[str, object]) -> Iterator[Needed]:
    """Files of other runs that the configuration names, such as the checkpoint to continue from."""
    for named in sorted(set(_paths(config, f"{home.runs}{os.sep}"))):
        path = Path(os.path.normpath(named))
        if path.is_relative_to(home.run_dir(run.run_id)) or not path.is_relative_to(home.runs):
            continue
        if path.is_dir():
            below = [path / name for name in sorted(look(path)) if not name.endswith("/")]
        else:
            # A policy and the state it belongs to differ in their suffix alone.
            below = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*"))
        yield from (_needed(home, item) for item in below if opening.is_regular(item))


def _paths(value: object, prefix: str) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _paths(item, prefix)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, prefix)
    elif isinstance(value, str) and value.startswith(prefix):
        yield value


def _needed(home: Home, path: Path) -> Needed:
    relative = path.relative_to(home.runs).as_posix()
    run_id, _, place = relative.partition("/")
    size, digest = opening.size_and_digest(home.run_dir(run_id), place)
    return Needed(path=relative, size=size, sha256=digest)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
