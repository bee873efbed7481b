"""Files that are damaged, forged or cut short, and ends that come in the middle."""

import gzip
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import MOSAIC
from support.patience import PATIENCE_S
from support.trainer import until

from mosaic.archive.gzip_writer import GzipWriter
from mosaic.archive.manifest import safe_path
from mosaic.archive.reader import ArchiveReader
from mosaic.errors import ArchiveError

from .conftest import Place

Entries = list[tuple[tarfile.TarInfo, bytes]]


def _read(file: Path) -> Entries:
    with tarfile.open(file) as opened:
        return [(info, opened.extractfile(info).read()) for info in opened]  # type: ignore[union-attr]


def _pack(entries: Entries) -> bytes:
    """The entries as an archive whose every header is sound."""
    parts = []
    for info, content in entries:
        info.size = len(content) if info.isreg() else 0
        parts += [info.tobuf(tarfile.PAX_FORMAT), content, bytes(-info.size % 512)]
    return gzip.compress(b"".join(parts) + bytes(1024))


def _first_file(document: dict[str, Any]) -> dict[str, Any]:
    file: dict[str, Any] = document["runs"][0]["files"][0]
    return file


class _Forger:
    """A good archive, and the ways to change it."""

    def __init__(self, file: Path) -> None:
        self.good = file.read_bytes()
        self.entries = _read(file)
        self.run_id = json.loads(self.entries[0][1])["runs"][0]["run_id"]

    def manifest(self, change: Callable[[dict[str, Any]], object]) -> bytes:
        """The archive with another manifest."""
        document = json.loads(self.entries[0][1])
        change(document)
        return _pack([(self.entries[0][0], json.dumps(document).encode()), *self.entries[1:]])

    def named(self, path: str) -> bytes:
        """The archive with another name for its first file."""
        return self.manifest(lambda document: _first_file(document).update(path=path))

    def entry(self, name: str, kind: bytes, **fields: Any) -> bytes:
        """The archive with an entry of a kind that no run has, in place of the first file."""
        info = tarfile.TarInfo(name)
        info.type = kind
        for key, value in fields.items():
            setattr(info, key, value)
        return _pack([self.entries[0], (info, b""), *self.entries[2:]])

    def event_log(self, change: Callable[[bytes], bytes]) -> bytes:
        """The archive with another event log, honestly listed in its manifest."""
        return self.file("events.jsonl", change)

    def file(self, path: str, change: Callable[[bytes], bytes]) -> bytes:
        """The archive with another content of a file, honestly listed in its manifest."""
        names = [info.name for info, _ in self.entries]
        at = next(place for place, name in enumerate(names) if name.endswith(path))
        content = change(self.entries[at][1])
        document = json.loads(self.entries[0][1])
        listed = next(f for f in document["runs"][0]["files"] if f["path"] == path)
        listed.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        changed = [*self.entries[:at], (self.entries[at][0], content), *self.entries[at + 1 :]]
        return _pack([(self.entries[0][0], json.dumps(document).encode()), *changed[1:]])

    def annotated(self, **fields: Any) -> bytes:
        """The archive with one more event in its log."""

        def change(log: bytes) -> bytes:
            seq = log.count(b"\n") + 1
            event = {"seq": seq, "kind": "annotated", "at": 1.0, "mono": 1.0, "data": fields}
            return log + json.dumps(event).encode() + b"\n"

        return self.event_log(change)


# What a hostile file holds, and what its refusal must say.
Hostile = dict[str, tuple[bytes, str]]


def _cut_or_changed(forger: _Forger) -> Hostile:
    """The file itself is damaged, cut, or more than one."""
    good, entries = forger.good, forger.entries
    flipped = [*entries[:-1], (entries[-1][0], entries[-1][1][::-1])]
    return {
        "empty": (b"", "ends in the middle"),
        "noise": (os.urandom(4000), "damaged or not a MOSAIC archive"),
        "another tar": (_pack(entries[1:]), "not a MOSAIC archive"),
        "cut short": (good[: len(good) // 2], "ends in the middle"),
        "cut at the end": (good[:-4], "ends in the middle"),
        "a flipped bit": (good[:-6] + bytes([good[-6] ^ 1]) + good[-5:], "damaged"),
        "more behind it": (good + b"x", "more in the file"),
        "an archive behind it": (good + good, "more in the file"),
        "other content": (_pack(flipped), "checksum"),
        "a file missing": (_pack(entries[:-1]), "ends where"),
        "a file more": (_pack([*entries, entries[-1]]), "does not list"),
        "two files swapped": (_pack([*entries[:-2], entries[-1], entries[-2]]), "should be"),
    }


def _badly_named(forger: _Forger) -> Hostile:
    """A path that no run has."""
    return {
        "..": (forger.named("../../../escaped"), "leads outside the run"),
        "absolute": (forger.named("/etc/escaped"), "leads outside the run"),
        "a dot": (forger.named("logs/./x"), "leads outside the run"),
        "a NUL": (forger.named("a\0b"), "characters that no file"),
        "a long name": (forger.named("x" * 300), "too long"),
        "a file as folder": (
            forger.manifest(
                lambda d: d["runs"][0]["files"].append(
                    {**_first_file(d), "path": _first_file(d)["path"] + "/below"}
                ),
            ),
            "both a file and a folder",
        ),
        "a name twice": (
            forger.manifest(lambda d: d["runs"][0]["files"].append(_first_file(d))),
            "twice",
        ),
    }


def _not_files(forger: _Forger) -> Hostile:
    """Entries that are no files."""
    return {
        "a symbolic link": (
            forger.entry(f"{forger.run_id}/link", tarfile.SYMTYPE, linkname="/etc/passwd"),
            "a symbolic link",
        ),
        "a hard link": (
            forger.entry(f"{forger.run_id}/link", tarfile.LNKTYPE, linkname="manifest.json"),
            "a hard link",
        ),
        "a device": (forger.entry(f"{forger.run_id}/dev", tarfile.CHRTYPE, devmajor=1), "a device"),
        "a pipe": (forger.entry(f"{forger.run_id}/pipe", tarfile.FIFOTYPE), "a named pipe"),
    }


def _too_large(forger: _Forger) -> Hostile:
    """More than can be held, said or hidden in a header."""
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb") as packed:
        info = tarfile.TarInfo("manifest.json")
        info.size = 8 * 2**30 - 1
        packed.write(info.tobuf() + bytes(2**20))
    long_header = tarfile.TarInfo("x")
    long_header.type, long_header.size = tarfile.XHDTYPE, 2**30
    return {
        "a huge manifest": (bomb.getvalue(), "not ours"),
        "a huge header": (gzip.compress(long_header.tobuf() + bytes(2**20)), "not ours"),
        "a bomb": (
            forger.manifest(lambda d: _first_file(d).update(size=2**30 + 2**20)),
            "looks like a bomb",
        ),
        "too large": (
            forger.manifest(lambda d: _first_file(d).update(size=2**58)),
            "to spare",
        ),
    }


def _lying_manifests(forger: _Forger) -> Hostile:
    """A manifest that says what cannot be."""
    return {
        "a newer schema": (
            forger.manifest(lambda d: d.update(schema_version=2)),
            "update MOSAIC",
        ),
        "a wrong id": (
            forger.manifest(lambda d: d["runs"][0].update(run_id="../x")),
            "not a run id",
        ),
        "an unknown key": (forger.manifest(lambda d: d.update(more=1)), "more"),
        "a run twice": (
            forger.manifest(lambda d: d["runs"].append(d["runs"][0])),
            "same run twice",
        ),
    }


def _lying_logs(forger: _Forger) -> Hostile:
    """An event log that tells of another life."""

    def without_end(log: bytes) -> bytes:
        return b"".join(line for line in log.splitlines(True) if b'"settled"' not in line)

    return {
        "not ended": (forger.event_log(without_end), "has not ended"),
        "a damaged log": (forger.event_log(lambda log: log + b"{}\n"), "damaged"),
        "a log of nonsense": (
            forger.event_log(lambda log: log.replace(b'"algo": "short"', b'"algo": 7')),
            "makes no sense",
        ),
        "another id": (forger.annotated(run_id="../../escaped"), "run_id: unknown field"),
        "no time": (forger.annotated(finished_at="soon"), "makes no sense"),
        "not a number": (
            forger.event_log(lambda log: re.sub(rb'"at": [0-9.]+', b'"at": NaN', log, count=1)),
            "at: nan is not a finite number",
        ),
        "an epoch of no home": (forger.annotated(epoch=2**70), "makes no sense"),
        "an endless name": (forger.annotated(run_name="x" * 2**21), "bytes"),
        "half a letter": (forger.annotated(idempotency_key="\ud800"), "makes no sense"),
        "odd checkpoints": (forger.annotated(checkpoints=[1]), "makes no sense"),
        "a request of its own": (forger.annotated(request={"evil": 1}), "request: unknown field"),
        "no request": (forger.annotated(request=None), "request: unknown field"),
        "a state of its own": (forger.annotated(state="TERM"), "state: unknown field"),
    }


def _with_credentials(forger: _Forger) -> Hostile:
    """A configuration with a credential in it, as older versions exported it."""

    def changed(**fields: Any) -> bytes:
        return forger.file(
            "config.json", lambda old: json.dumps({**json.loads(old), **fields}).encode()
        )

    address = "postgres://me:Canary-Value@db.example/x"
    return {
        "a key": (changed(environment={"OPENAI_KEY": "Canary-Value"}), "credential (OPENAI_KEY)"),
        "a password": (changed(environment={"DATABASE": address}), "credential (DATABASE)"),
        "a name": (changed(run_name=address), "credential (run_name)"),
    }


def _hostile(forger: _Forger) -> Hostile:
    """Every hostile file, by name."""
    kinds = (
        _cut_or_changed, _badly_named, _not_files, _too_large, _lying_manifests, _lying_logs,
        _with_credentials,
    )  # fmt: skip
    return {name: file for kind in kinds for name, file in kind(forger).items()}


def test_x3_hostile_archives_are_refused_and_leave_nothing(
    archive: tuple[Place, str, Path], make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """Every forged, damaged or cut file is refused with what is wrong, and nothing is written."""
    _, run_id, good = archive
    place = make_place("two")
    home = place.trainer.home
    for name, (content, words) in _hostile(_Forger(good)).items():
        file = tmp_path / "hostile.tar.gz"
        file.write_bytes(content)
        with pytest.raises(ArchiveError) as refused:
            pytest.fail(f"{name}: {place.trainer.client.import_runs(file)}")
        assert words in str(refused.value), f"{name}: {refused.value}"
        assert list(home.runs.iterdir()) == [], name
    assert not list(tmp_path.rglob("escaped"))
    assert place.runs() == []
    place.mosaic("import", str(good))
    assert place.runs() == [run_id]


def test_a_million_files_are_refused_before_one_is_written(
    archive: tuple[Place, str, Path], tmp_path: Path
) -> None:
    """A manifest that lists more files than any run has is refused as a whole."""
    place, run_id, good = archive

    def swell(document: dict[str, Any]) -> None:
        first = _first_file(document)
        document["runs"][0]["files"] += [{**first, "path": f"f{at}"} for at in range(100_000)]

    file = tmp_path / "many.tar.gz"
    file.write_bytes(_Forger(good).manifest(swell))
    place.mosaic("delete", run_id, "--purge")
    assert "at most 100,000" in place.mosaic("import", str(file), code=2)
    assert list(place.trainer.home.runs.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["", "/", "a//b", "a/", "./a", "../a", "a/../b", "a\\b", "a\nb", "\x7f", "x" * 256]
)
def test_paths_that_no_run_has_are_not_safe(path: str) -> None:
    """Only plain relative names below the run are taken."""
    with pytest.raises(ValueError):
        safe_path(path)


@pytest.fixture
def large(archive: tuple[Place, str, Path], tmp_path: Path) -> tuple[Place, str, Path]:
    """An archive that takes a while to send: where it is from, its run, the file."""
    one, run_id, _ = archive
    (one.trainer.home.run_dir(run_id) / "zzz.bin").write_bytes(os.urandom(2**22))
    path = tmp_path / "large.tar.gz"
    one.mosaic("export", run_id, "-o", str(path))
    return one, run_id, path


def test_a_killed_daemon_leaves_no_half_import(
    large: tuple[Place, str, Path], make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """kill -9 in the middle: the next daemon knows no such run, and it can be imported."""
    one, run_id, good = large
    place = make_place("two")
    with _half_sent(place, good, tmp_path) as sender:
        until(place.leftovers, "the import has begun")
        place.trainer.kill()
        sender.wait(timeout=PATIENCE_S)
        assert sender.returncode in (1, 3)
    assert place.leftovers() == [f".new-{run_id}"]
    place.trainer.start()
    assert place.leftovers() == []
    assert place.runs() == []
    place.mosaic("import", str(good))
    assert place.tree(run_id) == one.tree(run_id)


def test_a_killed_client_leaves_no_half_import(
    large: tuple[Place, str, Path], make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """The daemon forgets what a client that died has sent so far."""
    _, run_id, good = large
    place = make_place("two")
    with _half_sent(place, good, tmp_path) as sender:
        until(place.leftovers, "the import has begun")
        text = place.mosaic("import", str(good), code=2)
        assert "imported by another client" in text
        sender.send_signal(signal.SIGKILL)
        sender.wait(timeout=PATIENCE_S)
        until(lambda: not place.leftovers(), "the half import is gone")
    assert place.runs() == []
    place.mosaic("import", str(good))
    assert place.runs() == [run_id]


def test_a_stopped_daemon_leaves_no_half_import(
    large: tuple[Place, str, Path], make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """Many clients that send nothing more keep nobody waiting, and a daemon that ends tidies up."""
    _, _, good = large
    place = make_place("two")
    with ExitStack() as stack:
        for number in range(7):
            folder = tmp_path / str(number)
            folder.mkdir()
            stack.enter_context(_half_sent(place, good, folder, "--as-new"))
        until(lambda: len(place.leftovers()) == 7, "the imports have begun")
        ordinary = place.trainer.submit("short")
        assert place.trainer.ended(ordinary).outcome == "completed"
        os.kill(place.trainer.pid, signal.SIGTERM)
        assert place.trainer.wait_for_death() == 0
    assert place.leftovers() == []


class _half_sent:  # noqa: N801
    """`mosaic import` of a pipe into which only half of an archive has been written."""

    def __init__(self, place: Place, good: Path, folder: Path, *flags: str) -> None:
        self._place, self._good, self._flags = place, good, flags
        self._pipe = folder / "pipe"

    def __enter__(self) -> "subprocess.Popen[bytes]":
        os.mkfifo(self._pipe)
        self._sender = subprocess.Popen(
            [MOSAIC, "import", str(self._pipe), *self._flags],
            env=self._place.mosaic.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        content = self._good.read_bytes()
        self._writer = self._pipe.open("wb", buffering=0)
        self._writer.write(content[: len(content) // 2])
        return self._sender

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._sender.kill()
        self._sender.wait()


def test_the_archive_is_not_held_in_memory() -> None:
    """A reader inflates no more at once than it is asked for."""
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    swollen = packed.compress(bytes(2**26)) + packed.flush()
    reader = ArchiveReader(iter([swollen]))
    assert len(reader._some(1000)) <= 1000
    assert len(reader._pending) < len(swollen)


def test_any_gzip_reader_reads_what_is_written() -> None:
    """Pieces that shrink and pieces that do not, in any order, come back as they were."""
    pieces = [
        os.urandom(200_000),
        b"a" * 300_000,
        os.urandom(65_535),
        b"",
        b"x",
        os.urandom(70_000),
    ]
    writer = GzipWriter()
    stream = writer.begin() + b"".join(map(writer.add, pieces)) + writer.end()
    assert gzip.decompress(stream) == b"".join(pieces)
    assert len(stream) < 350_000
