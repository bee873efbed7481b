"""Files that a run put where the daemon reads: links, pipes, floods. None of them holds it up."""

import ast
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.trainer import Trainer, until

import mosaic
from mosaic.runs import opening
from mosaic.runs.directory import RunDirectory
from mosaic.runs.metric_writer import FOLDER, MetricWriter, newest_point, path_of
from mosaic.trainer.loop.tailer import LineTailer, cap_log

PACKAGE = Path(mosaic.__file__).parent


def _swap(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink(missing_ok=True)
    make(path)


@pytest.mark.parametrize("name", ["logs/stderr.log", "logs/stdout.log", "exit.json"])
def test_f03_a_pipe_in_its_directory_stops_only_the_run(trainer: Trainer, name: str) -> None:
    """A run whose log or exit record is a pipe ends; the daemon answers, also after a restart."""
    run_id = trainer.stepping().run_id
    _swap(trainer.home.run_dir(run_id) / name, os.mkfifo)
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).outcome == "cancelled"
    trainer.restart()
    assert trainer.client.get(run_id).outcome == "cancelled"
    list(trainer.client.logs(run_id))
    assert trainer.ended(trainer.submit("short")).outcome == "completed"


def test_f03_a_pipe_in_place_of_a_curve_is_no_curve(trainer: Trainer) -> None:
    """The daemon that keeps a run's curves neither waits for a pipe nor stops over it."""
    run_id = trainer.submit("steady")
    folder = trainer.home.run_dir(run_id) / FOLDER
    until(lambda: any(folder.glob("*.points")), "the daemon keeps its curve")
    (curve,) = folder.glob("*.points")
    _swap(curve, os.mkfifo)
    trainer.restart()
    before = trainer.steps(run_id)
    until(lambda: trainer.steps(run_id) > before + 100, "it makes steps")
    assert trainer.client.get(run_id).state == "EXEC"
    trainer.client.cancel(run_id)
    trainer.ended(run_id)


def test_f03_only_regular_files_of_the_run_itself_are_read(tmp_path: Path) -> None:
    """Links, pipes, folders and files that are too large are refused; nothing is waited for."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / "logs").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("{}")
    (run / "link").symlink_to(outside / "secret")
    (run / "folder").mkdir()
    (run / "linked").symlink_to(outside)
    os.mkfifo(run / "pipe")
    (run / "large").write_bytes(b"x" * 11)
    for place in (
        "link",
        "folder",
        "linked/secret",
        "pipe",
        "missing",
        "a\0b",
        "../outside/secret",
    ):
        with pytest.raises(OSError, match=r"."):
            opening.read_regular(run, place)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        opening.read_regular(run, "large", 10)
    assert opening.read_regular(run, "large", 11) == b"x" * 11
    assert opening.read_end(run, "large", 3) == b"xxx"


def test_f14_the_limit_of_logs_destroys_nothing_outside_the_run(tmp_path: Path) -> None:
    """Neither a link, a hard link nor a linked folder makes the cap write to another file."""
    run, data = RunDirectory(tmp_path / "run"), tmp_path / "data"
    content = os.urandom(4 << 20)
    data.mkdir()
    (data / "stdout.log").write_bytes(content)
    run.create()
    for lead_there in (
        lambda: run.stdout.symlink_to(data / "stdout.log"),
        lambda: os.link(data / "stdout.log", run.stdout),
    ):
        lead_there()
        cap_log(run.stdout, 1 << 20)
        assert (data / "stdout.log").read_bytes() == content
        run.stdout.unlink()
    run.logs.rmdir()
    run.logs.symlink_to(data)
    cap_log(run.stdout, 1 << 20)
    assert (data / "stdout.log").read_bytes() == content


def test_f14_curves_are_not_written_through_a_link(tmp_path: Path) -> None:
    """A linked curve leaves the other file as it is."""
    data = tmp_path / "data"
    data.write_bytes(b"precious")
    run = tmp_path / "run"
    run.mkdir()
    writer = MetricWriter(run)
    path_of(run / FOLDER, "x").symlink_to(data)
    writer.add("x", 1, 2.0)
    writer.close()
    assert data.read_bytes() == b"precious"
    assert newest_point(run / FOLDER, "x") is None


def test_f13_a_flood_of_lifecycle_lines_is_worked_off_in_slices(
    trainer: Trainer, tmp_path: Path
) -> None:
    """While thousands of events of one run are recorded, the daemon answers between them."""
    count = 3000
    line = {"event": "checkpoint_saved", "run_id": "@RUN@", "path": "p", "step": 1}
    text = json.dumps({**line, "sha256": "0" * 64, "kind": "policy"}, separators=(",", ":"))
    flood = tmp_path / "flood.txt"
    flood.write_text(f"{text}\n" * count)
    run_id = trainer.submit("says", extras={"file": str(flood)})
    versions = set()

    def over() -> bool:
        record = trainer.client.get(run_id)
        versions.add(record.version)
        return bool(record.state == "TERM")

    until(over, "the flood is worked off", patience_s=300)
    # Answers that saw the run half-way: in between, the daemon had time for others.
    assert len(versions) > 20
    assert trainer.kinds(run_id).count("checkpoint_saved") == count


def test_f13_a_slice_ends_between_two_lines(tmp_path: Path) -> None:
    """Who stops reading early gets the next line next time, and none twice."""
    log = RunDirectory(tmp_path / "run")
    log.create()
    lines = [f"line {number}".encode() for number in range(20_000)]
    log.stdout.write_bytes(b"".join(line + b"\n" for line in lines) + b"half")
    tailer, seen = LineTailer(log.stdout), list[bytes]()
    while True:
        turn = tailer.poll()
        for taken, line in enumerate(turn, start=1):
            seen.append(line)
            if taken == 777:
                break
        turn.close()
        assert tailer.offset == sum(len(line) + 1 for line in seen)
        if not tailer.behind:
            break
    assert seen == lines


# What may open files by itself, and why: everything else goes through `mosaic.runs.opening`.
OPENERS = {
    "runs/opening.py": "it is the one way",
    "runs/files.py": "folders, one descriptor after the other",
    "runs/provenance.py": "the name of the processor, in /proc",
    "runs/directory.py": "the user's own documents; removal that follows no link",
    "trainer/daemon.py": "the lock of the home",
    "trainer/launch/supervisor.py": "a process of its own, which makes the files",
    "trainer/launch/remote.py": "the same process, on the node of a cluster",
    "trainer/launch/executor.py": "starts processes",
    "trainer/loop/housekeeping.py": "makes a new file in the archive of logs",
}
_OPENS = {"open", "read_bytes", "read_text", "fromfile"}


def test_f03_nothing_else_opens_files_of_runs() -> None:
    """The daemon and what reads runs have one way to open a file; a second one is a bug."""
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{line}: {call}"
        for folder in ("trainer", "runs")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        if path.relative_to(PACKAGE).as_posix() not in OPENERS
        for line, call in _openings(ast.parse(path.read_text()))
    ]
    assert not found, f"open these with mosaic.runs.opening: {found}"


def _openings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "read_json" in [name.name for name in node.names]:
            yield node.lineno, "read_json"
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno, "open"
        if isinstance(node.func, ast.Attribute) and node.func.attr in _OPENS:
            text = ast.unparse(node)
            if text.startswith(("np.fromfile(file,", "self._engine.controls.open(")):
                continue
            yield node.lineno, text


def test_f03_the_time_of_one_look_is_bounded(trainer: Trainer) -> None:
    """With pipes in place of all files of a live run, every call is still answered."""
    run_id = trainer.stepping().run_id
    directory = trainer.directory(run_id)
    for path in (directory.stdout, directory.stderr, directory.exit, directory.config):
        _swap(path, os.mkfifo)
    for _ in range(20):
        assert trainer.client.health().pid == trainer.pid
        time.sleep(0.05)
    trainer.client.cancel(run_id)
    trainer.ended(run_id)
