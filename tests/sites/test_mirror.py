"""Two copies of a run directory become equal, whatever happens to the connection in between."""

import os
import random
from pathlib import Path

import pytest

from mosaic.agent.mirror import Mirror, Piece
from mosaic.agent.scanning import belongs, grows
from mosaic.errors import ConfinementError
from mosaic.runs.metric_writer import DAEMONS_MARK, FOLDER, MetricWriter
from mosaic.trainer.sites.reception import Reception
from mosaic.wire import trainer_pb2 as pb


class Line:
    """A connection that breaks now and then, before or after the other side has heard."""

    def __init__(self, there: Path, chance: random.Random | None = None) -> None:
        self._reception = Reception(there)
        self._chance = chance
        self.sent = 0

    def send(self, pieces: list[Piece], removed: list[str]) -> list[int]:
        if self._chance and self._chance.random() < 0.1:
            raise ConnectionError("before")
        taken = [self._reception.take(_message(piece)) for piece in pieces]
        for path in removed:
            self._reception.remove(path)
        self.sent += sum(len(piece.data) for piece in pieces)
        if self._chance and self._chance.random() < 0.1:
            raise ConnectionError("after")
        return taken


def _message(piece: Piece) -> pb.AgentPiece:
    return pb.AgentPiece(
        path=piece.path,
        offset=piece.offset,
        data=piece.data,
        appends=piece.appends,
        sha256=piece.sha256,
        size=piece.size,
    )


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A run directory and the folder of its copy."""
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "logs").mkdir(parents=True)
    there.mkdir()
    return here, there


def _change(here: Path, chance: random.Random) -> None:
    """Do one of the things that workers do."""
    what = chance.randrange(5)
    if what < 2:
        name = chance.choice(["logs/stdout.log", "metrics/loss.points", "notes.jsonl"])
        (here / name).parent.mkdir(exist_ok=True)
        with (here / name).open("ab") as file:
            file.write(chance.randbytes(chance.randrange(1, 3000)))
    elif what == 2:
        fresh = here / "policy.tmp"
        fresh.write_bytes(chance.randbytes(chance.choice([10, 70_000, 1_500_000])))
        (here / "checkpoints").mkdir(exist_ok=True)
        fresh.rename(here / "checkpoints" / f"step-{chance.randrange(4)}.state")
    elif what == 3:
        for path in sorted((here / "checkpoints").glob("*"))[:1]:
            path.unlink()
    else:
        (here / "summary.json").write_text(str(chance.random()))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_copies_agree_after_a_broken_line_and_a_new_agent(
    pair: tuple[Path, Path], seed: int
) -> None:
    """Appended, replaced and removed files: nothing is lost, doubled or left over."""
    here, there = pair
    chance = random.Random(seed)
    line = Line(there, chance)
    mirror = Mirror(here, line.send)
    for _ in range(60):
        _change(here, chance)
        try:
            mirror.turn(ended=False)
        except ConnectionError:
            if chance.random() < 0.3:
                mirror = Mirror(here, line.send)  # the agent was killed and knows nothing
    (here / "exit.json").write_text('{"code": 0}')
    calm = Line(there)
    Mirror(here, calm.send).turn(ended=True)
    stale = {name for name in _files(there) if name not in _files(here)}
    # What was removed while no agent looked is the one thing that a new one cannot know of.
    assert all(name.startswith((".incoming", "checkpoints/")) for name in stale)
    assert {name: _files(there)[name] for name in _files(here)} == _files(here)


def test_what_the_daemon_has_is_not_sent_again(pair: tuple[Path, Path]) -> None:
    """A new agent asks by hash: a large checkpoint crosses the network once."""
    here, there = pair
    (here / "big.state").write_bytes(os.urandom(3_000_000))
    first, second = Line(there), Line(there)
    Mirror(here, first.send).turn(ended=False)
    Mirror(here, second.send).turn(ended=False)
    assert (first.sent, second.sent) == (3_000_000, 0)


def test_a_file_arrives_before_the_line_that_speaks_of_it(pair: tuple[Path, Path]) -> None:
    """Whoever reads `checkpoint_saved` finds the checkpoint; the exit record comes last of all."""
    here, there = pair
    order: list[str] = []

    def send(pieces: list[Piece], removed: list[str]) -> list[int]:
        order.extend(piece.path for piece in pieces if piece.data)
        return line.send(pieces, removed)

    line = Line(there)
    (here / "logs" / "stdout.log").write_text("checkpoint_saved\n")
    (here / "a.state").write_bytes(b"weights")
    (here / "exit.json").write_text("{}")
    Mirror(here, send).turn(ended=True)
    assert order == ["a.state", "logs/stdout.log", "exit.json"]


def test_curves_of_the_worker_take_the_place_of_the_daemons(pair: tuple[Path, Path]) -> None:
    """The daemon keeps curves for a worker without any, and stops when the worker's own arrive."""
    here, there = pair
    with MetricWriter(there, for_worker=True) as daemons:
        daemons.add("charts/loss", 1, 1.0)
    (there / FOLDER / DAEMONS_MARK).touch()
    with MetricWriter(here) as workers:
        workers.add("charts/loss", 1, 2.0, 5.0)
        workers.add("charts/loss", 2, 3.0, 6.0)
    Mirror(here, Line(there).send).turn(ended=False)
    assert not (there / FOLDER / DAEMONS_MARK).exists()
    name = "charts%2Floss.points"
    assert (there / FOLDER / name).read_bytes() == (here / FOLDER / name).read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "../other/exit.json", "/etc/passwd", "a/../../b", "", "/", "a//b", "./a", "a\0b",
        "events.jsonl", "config.json", "fence", "control.json", "control-2.json", "stop-asked",
        "lease.json", ".incoming.x.tmp", "telemetry/steps.sqlite3", "supervisor.lock", "x" * 600,
    ],
)  # fmt: skip
def test_an_agent_can_write_nothing_but_its_runs_files(tmp_path: Path, path: str) -> None:
    """Another run, the event log, the daemon's marks: refused, and nothing is written."""
    root = tmp_path / "run"
    root.mkdir()
    for appends in (True, False):
        piece = pb.AgentPiece(path=path, data=b"x", appends=appends, sha256="0" * 64, size=1)
        with pytest.raises(ConfinementError):
            Reception(root).take(piece)
    with pytest.raises(ConfinementError):
        Reception(root).remove(path)
    assert not _files(tmp_path)


def test_a_link_in_the_run_leads_nowhere(tmp_path: Path) -> None:
    """Whatever is in the run directory, a piece does not leave it."""
    root, secret = tmp_path / "run", tmp_path / "secret"
    root.mkdir()
    secret.mkdir()
    (root / "out").symlink_to(secret)
    with pytest.raises(ConfinementError):
        Reception(root).take(pb.AgentPiece(path="out/x", data=b"x", appends=True, size=1))
    assert not list(secret.iterdir())


def test_a_file_whose_hash_is_wrong_is_not_taken(tmp_path: Path) -> None:
    """What was changed on the way, or while it was read, never replaces what is there."""
    (tmp_path / "a.state").write_bytes(b"good")
    reception = Reception(tmp_path)
    piece = pb.AgentPiece(path="a.state", data=b"evil", sha256="a" * 64, size=4)
    assert reception.take(piece) == 0
    assert _files(tmp_path) == {"a.state": b"good"}


def test_names_say_how_a_file_travels() -> None:
    """Logs and curves by their ends, checkpoints whole, the daemon's own not at all."""
    assert [grows(path) for path in ("logs/stdout.log", "metrics/x.points", "a.state")] == [
        True,
        True,
        False,
    ]
    assert belongs("telemetry/spool-step.bin", ended=True)
    assert not belongs("telemetry/spool-step.bin")
    assert not belongs("checkpoints/step-1.pin")
