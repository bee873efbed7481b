"""Runs leave one home as a file and live on in another."""

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support import harness
from support.trainer import until

from mosaic.client import archives
from mosaic.errors import ArchiveError
from mosaic.wire import trainer_pb2 as pb

from .conftest import Place

KEYS = Path(__file__).parents[1] / "data" / "keys.txt"
PPO = (
    "train", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "1024", "--num-envs", "2",
    "--num-steps", "64",
)  # fmt: skip


def test_a_run_moves_to_another_home_and_goes_on_there_exactly(
    make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """Export, import, resume: the files are the same to the last byte, and so is what follows."""
    one, two = make_place("one"), make_place("two")
    whole = one.mosaic.json(*PPO, "--detach")["run_id"]
    half = one.mosaic.json(*PPO, "--stop-at", "512")["run_id"]
    file = tmp_path / "half.mosaic.tar.gz"
    done = one.mosaic.json("export", half[:20], "-o", str(file))
    assert done["runs"][0]["left_out"] == done["runs"][0]["redacted"] == []
    assert done["size"] == file.stat().st_size

    imported = two.mosaic.json("import", str(file))["runs"]
    assert imported == [
        {
            "run_id": half,
            "original_id": half,
            "created": True,
            "files": done["runs"][0]["files"],
            "bytes": done["runs"][0]["bytes"],
        }
    ]
    assert two.tree(half) == one.tree(half)
    assert two.runs() == [half]
    here, there = two.mosaic.json("show", half), one.mosaic.json("show", half)
    for name in set(here) - {"run_dir", "last_heartbeat"}:
        assert here[name] == there[name], name
    assert two.mosaic("logs", half) == one.mosaic("logs", half)

    resumed = two.mosaic.json("train", "ppo", "--resume", half, "--total-timesteps", "1024")
    assert resumed["outcome"] == "completed"
    one.trainer.ended(whole)
    states = [
        harness.newest_state(place.trainer.home.run_dir(run_id))
        for place, run_id in ((one, whole), (two, resumed["run_id"]))
    ]
    assert states[0]["step"] == 1024
    for part in ("policy", "objects", "random"):
        assert harness.equal(states[0][part], states[1][part]), part
    assert two.mosaic.json("eval", half, "--episodes", "2")["evaluation"]["episodes"] == 2

    two.trainer.restart()
    assert two.mosaic.json("show", half)["metrics"] == here["metrics"]


def test_several_runs_fit_into_one_file(make_place: Callable[..., Place], tmp_path: Path) -> None:
    """`mosaic export A B` writes both; ordinary tar shows what is inside."""
    one, two = make_place("one"), make_place("two")
    ids = [one.trainer.submit("short") for _ in range(2)]
    for run_id in ids:
        one.trainer.ended(run_id)
    file = tmp_path / "both.tar.gz"
    one.mosaic("export", *ids, ids[0], "-o", str(file))
    with tarfile.open(file) as opened:
        names = opened.getnames()
    assert names[0] == "manifest.json"
    assert {name.split("/")[0] for name in names[1:]} == set(ids)
    two.mosaic("import", str(file))
    assert sorted(two.runs()) == sorted(ids)
    assert all(two.tree(run_id) == one.tree(run_id) for run_id in ids)


def test_a_recorded_episode_can_be_replayed_elsewhere(
    make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """Steps and frames of the telemetry lane travel with their run."""
    one, two = make_place("one"), make_place("two")
    one.mosaic("play", "CartPole-v1", "--seed", "3", "--script", str(KEYS))
    played = one.mosaic.json("replay", "last")
    file = tmp_path / "played.tar.gz"
    one.mosaic("export", "last", "-o", str(file))
    two.mosaic("import", str(file))
    assert two.mosaic.json("replay", "last") == played


def test_checkpoints_stay_at_home_when_asked(
    make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """--no-checkpoints leaves them out, says so, and the rest arrives."""
    one, two = make_place("one"), make_place("two")
    record = one.trainer.stepping("steady")
    one.trainer.client.cancel(record.run_id)
    one.trainer.ended(record.run_id)
    file = tmp_path / "light.tar.gz"
    done = one.mosaic.json("export", record.run_id, "--no-checkpoints", "-o", str(file))
    left = [item["path"] for item in done["runs"][0]["left_out"]]
    assert left == ["checkpoints/last.json"]
    two.mosaic("import", str(file))
    arrived = two.tree(record.run_id)
    assert {**arrived, left[0]: one.tree(record.run_id)[left[0]]} == one.tree(record.run_id)


def test_the_same_run_again_is_no_work_and_another_one_is_refused(
    archive: tuple[Place, str, Path],
) -> None:
    """Same id: equal content changes nothing, other content is refused, --as-new keeps both."""
    place, run_id, file = archive
    before = place.tree(run_id)
    again = place.mosaic.json("import", str(file))["runs"][0]
    assert not again["created"]
    assert "nothing to do" in place.mosaic("import", str(file))

    place.trainer.client.update(run_id, notes="changed since")
    text = place.mosaic("import", str(file), code=2)
    assert "events.jsonl" in text
    assert "--as-new" in text
    copy = place.mosaic.json("import", str(file), "--as-new")["runs"][0]
    assert copy["original_id"] == run_id != copy["run_id"]
    record = place.mosaic.json("show", copy["run_id"])
    assert record["parent_run_id"] == run_id
    assert record["outcome"] == "completed"
    ours = place.tree(copy["run_id"])
    assert ours["logs/stdout.log"] == before["logs/stdout.log"].replace(
        run_id.encode(), copy["run_id"].encode()
    )
    place.trainer.restart()
    assert set(place.runs()) == {run_id, copy["run_id"]}

    place.mosaic("delete", run_id)
    assert f"mosaic restore {run_id}" in place.mosaic("import", str(file), code=2)


def test_f32_the_key_of_an_imported_run_answers_no_submission(
    make_place: Callable[..., Place], tmp_path: Path
) -> None:
    """A key that was used in another home starts a new run here, also after a rebuild."""
    there, here = make_place("there"), make_place("here")
    config = there.trainer.config("short")
    original = there.trainer.client.submit(config, idempotency_key="nightly").run_id
    there.trainer.ended(original)
    file = tmp_path / "run.tar.gz"
    there.mosaic("export", original, "-o", str(file))
    here.mosaic("import", str(file))
    here.trainer.kill()
    for path in here.trainer.home.trainer.glob("registry.sqlite3*"):
        path.unlink()
    here.trainer.start()
    assert here.runs() == [original]
    fresh = here.trainer.client.submit(config, idempotency_key="nightly").run_id
    assert fresh != original
    assert here.trainer.ended(fresh).outcome == "completed"
    assert here.trainer.client.submit(config, idempotency_key="nightly").run_id == fresh
    assert not here.mosaic.json("import", str(file))["runs"][0]["created"]


def test_only_ended_runs_are_exported(make_place: Callable[..., Place], tmp_path: Path) -> None:
    """A run that still writes is refused with what to do; a mistyped id and a taken name too."""
    place = make_place("one")
    run_id = place.trainer.stepping("steady").run_id
    file = tmp_path / "run.tar.gz"
    refused = place.mosaic("export", run_id, "-o", str(file), code=2)
    assert f"mosaic cancel {run_id}" in refused
    assert not list(tmp_path.glob("*run.tar.gz*"))
    place.mosaic("cancel", run_id)
    assert "no run begins with" in place.mosaic("export", "01ZZZ", "-o", str(file), code=2)
    place.mosaic("export", run_id, "-o", str(file))
    assert "--force" in place.mosaic("export", run_id, "-o", str(file), code=2)
    place.mosaic("export", run_id, "-o", str(file), "--force")
    missing = tmp_path / "no" / "such" / "folder" / "x"
    assert "cannot write" in place.mosaic("export", run_id, "-o", str(missing), code=2)
    assert "cannot read" in place.mosaic("import", str(missing), code=2)


def test_no_secret_leaves_the_home(make_place: Callable[..., Place], tmp_path: Path) -> None:
    """A canary in settings, logs and a binary file is nowhere in the archive, nor is the token."""
    one, two = make_place("one"), make_place("two")
    canary = "CANARY1234567890abcdefCANARY"
    extras = {"wandb_api_key": canary}
    run_id = one.trainer.submit("short", extras=extras)
    one.trainer.ended(run_id)
    folder = one.trainer.home.run_dir(run_id)
    token = one.trainer.home.token.read_text().strip()
    with (folder / "logs" / "stderr.log").open("a") as log:
        log.write(f"the key is {canary}\nWANDB_API_KEY=other-canary-value\n")
    (folder / "notes.json").write_text(json.dumps({"password": "canary-password", "step": 3}))
    (folder / "weights.bin").write_bytes(os.urandom(3000) + token.encode() + os.urandom(3000))
    (folder / "outside").symlink_to("/etc/passwd")
    done = one.mosaic.json("export", run_id, "-o", str(tmp_path / "run.tar.gz"))["runs"][0]
    assert {item["path"] for item in done["left_out"]} == {"weights.bin", "outside"}
    assert done["redacted"] == ["logs/stderr.log", "notes.json"]

    two.mosaic("import", str(tmp_path / "run.tar.gz"))
    arrived = two.tree(run_id)
    everything = b"".join(arrived.values())
    for secret in (canary, "other-canary-value", "canary-password", token, "root:"):
        assert secret.encode() not in everything
    assert json.loads(arrived["notes.json"])["step"] == 3
    assert b"secret://wandb_api_key" in arrived["config.json"]


def test_a_file_that_changes_meanwhile_is_noticed(
    archive: tuple[Place, str, Path], tmp_path: Path
) -> None:
    """What was described is what is sent, or the export fails and leaves no file."""
    place, run_id, _ = archive
    growing = place.trainer.home.run_dir(run_id) / "aaa.bin"
    growing.write_bytes(os.urandom(64 * 2**20))
    target = tmp_path / "broken.tar.gz"
    request = pb.ExportRunsRequest(run_ids=[run_id])
    chunks = place.trainer.client._calls.stream("ExportRuns", request)
    next(chunks)
    with growing.open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"0123456789")
    with pytest.raises(ArchiveError, match=r"aaa\.bin changed"):
        archives.write(chunks, target, overwrite=False)
    assert not list(tmp_path.glob("*broken*"))
    until(lambda: place.trainer.client.get(run_id), "the daemon still answers")
