"""A run's files through the daemon: everything in the run directory, and nothing outside it."""

import json
import os
from pathlib import Path

import pytest
from support.trainer import Trainer, until

from mosaic.errors import RunFileError, RunNotFoundError


@pytest.fixture
def ended(trainer: Trainer) -> str:
    """A run that is over, whose directory holds still."""
    run_id = trainer.submit("short")
    trainer.ended(run_id)
    return run_id


def test_the_config_is_the_stored_one_and_holds_no_secret(trainer: Trainer) -> None:
    """What was submitted comes back whole and can be submitted again; a secret is a reference."""
    secret = "0123456789abcdef0123456789abcdef01234567"
    config = trainer.config("reads_secret", environment={"WANDB_API_KEY": secret})
    run_id = trainer.client.submit(config).run_id
    trainer.ended(run_id)
    document = trainer.client.config(run_id)
    assert document["metadata"]["worker"]["config"]["algo"] == "reads_secret"
    assert secret not in json.dumps(document)
    again = trainer.client.submit(document, parent_run_id=run_id).run_id
    assert trainer.ended(again).outcome == "completed"


def test_folders_are_listed_with_kind_size_and_time(trainer: Trainer, ended: str) -> None:
    """Files, folders, links and the rest are told apart; a link is named and not followed."""
    run_dir = trainer.directory(ended).path
    (run_dir / "videos" / "deep").mkdir(parents=True)
    (run_dir / "videos" / "deep" / "b.mp4").write_bytes(b"12345")
    (run_dir / "videos" / "out").symlink_to("/etc")
    os.mkfifo(run_dir / "videos" / "pipe")
    here = {file.path: file for file in trainer.client.files(ended, "videos")}
    kinds = {path: file.kind for path, file in here.items()}
    assert kinds == {"videos/deep": "folder", "videos/out": "link", "videos/pipe": "other"}
    deep = trainer.client.files(ended, "videos", recursive=True)
    assert [file.path for file in deep] == [
        "videos/deep",
        "videos/deep/b.mp4",
        "videos/out",
        "videos/pipe",
    ]
    assert (deep[1].name, deep[1].size) == ("b.mp4", 5)
    assert deep[1].modified_at == pytest.approx(
        (run_dir / "videos/deep/b.mp4").stat().st_mtime, abs=1e-3
    )
    top = {file.path for file in trainer.client.files(ended)}
    assert {"config.json", "events.jsonl", "exit.json", "logs", "videos"} <= top


def test_a_folder_of_thousands_comes_in_pages(trainer: Trainer, ended: str) -> None:
    """No entry is lost or doubled between two pages."""
    folder = trainer.directory(ended).path / "many"
    folder.mkdir()
    names = [f"many/{number:05}" for number in range(2500)]
    for name in names:
        (trainer.directory(ended).path / name).touch()
    assert [file.path for file in trainer.client.files(ended, "many")] == names


def test_a_file_is_read_whole_in_parts_and_from_its_end(trainer: Trainer, ended: str) -> None:
    """Offset, limit and a negative offset give exactly these bytes."""
    content = os.urandom(700_000)
    (trainer.directory(ended).path / "video.mp4").write_bytes(content)
    whole = trainer.client.read_file(ended, "video.mp4")
    assert (whole.data, whole.offset, whole.size, whole.end) == (content, 0, 700_000, 700_000)
    part = trainer.client.read_file(ended, "video.mp4", offset=300_000, limit=5)
    assert (part.data, part.end) == (content[300_000:300_005], 300_005)
    tail = trainer.client.read_file(ended, "video.mp4", offset=-24_000)
    assert (tail.data, tail.offset) == (content[-24_000:], 676_000)
    past = trainer.client.read_file(ended, "video.mp4", offset=900_000)
    assert (past.data, past.size) == (b"", 700_000)
    assert trainer.client.read_file(ended, "exit.json").document()["code"] == 0


def test_an_empty_file_is_a_file(trainer: Trainer, ended: str) -> None:
    """Nothing in it is an answer, not an error."""
    (trainer.directory(ended).path / "empty").touch()
    assert trainer.client.read_file(ended, "empty").data == b""


def test_a_growing_file_can_be_followed(trainer: Trainer, tmp_path: Path) -> None:
    """Each call brings what is new; a local copy is brought up to date the same way."""
    run_id = trainer.stepping("steady").run_id
    first = trainer.client.read_file(run_id, "logs/stdout.log")
    until(
        lambda: trainer.client.read_file(run_id, "logs/stdout.log", offset=first.end).data,
        "the log grows",
    )
    copy = tmp_path / "copy.log"
    have = trainer.client.download(run_id, "logs/stdout.log", copy)
    assert have >= first.end
    trainer.client.cancel(run_id)
    trainer.ended(run_id)
    size = trainer.client.download(run_id, "logs/stdout.log", copy)
    log = trainer.directory(run_id).stdout
    assert size > have
    assert copy.read_bytes() == log.read_bytes()
    log.write_bytes(b"afresh")
    assert trainer.client.download(run_id, "logs/stdout.log", copy) == 6
    assert copy.read_bytes() == b"afresh"


def test_nothing_outside_the_run_can_be_reached(trainer: Trainer, ended: str) -> None:
    """Neither dots, absolute paths, links out, nor a link in the middle lead outside."""
    run_dir = trainer.directory(ended).path
    outside = trainer.home.token
    (run_dir / "link").symlink_to(outside)
    (run_dir / "folder").symlink_to(outside.parent)
    (run_dir / "loop").symlink_to("loop")
    other = trainer.submit("short")
    trainer.ended(other)
    for path in (
        "../../trainer/token",
        str(outside),
        f"../{other}/config.json",
        "link",
        f"folder/{outside.name}",
        "logs/../../../settings.json",
        "loop",
        "a\0b",
    ):
        with pytest.raises(RunFileError):
            trainer.client.read_file(ended, path)
    for folder in ("..", "folder", "/", "../.."):
        with pytest.raises(RunFileError):
            trainer.client.files(ended, folder)


def test_a_link_that_stays_inside_is_followed(trainer: Trainer, ended: str) -> None:
    """W&B links its newest run's folder; that is no way out."""
    run_dir = trainer.directory(ended).path
    (run_dir / "latest").symlink_to("logs")
    through = trainer.client.read_file(ended, "latest/stdout.log")
    assert through.data == trainer.directory(ended).stdout.read_bytes()


def test_what_is_no_regular_file_is_refused_at_once(trainer: Trainer, ended: str) -> None:
    """A pipe without a writer does not hold the daemon; a folder says that it is one."""
    os.mkfifo(trainer.directory(ended).path / "pipe")
    with pytest.raises(RunFileError, match="not a regular file"):
        trainer.client.read_file(ended, "pipe")
    with pytest.raises(RunFileError, match="'logs' is a folder"):
        trainer.client.read_file(ended, "logs")
    with pytest.raises(RunFileError, match="is a folder"):
        trainer.client.read_file(ended, "")
    with pytest.raises(RunFileError, match=r"the run has no 'nothing\.json'"):
        trainer.client.read_file(ended, "nothing.json")
    with pytest.raises(RunFileError, match="the run has no 'nowhere'"):
        trainer.client.files(ended, "nowhere")
    assert trainer.client.health().pid == trainer.pid


def test_a_file_too_large_for_memory_is_refused_but_not_lost(
    trainer: Trainer, ended: str, tmp_path: Path
) -> None:
    """Reading says how large it is; a part and a download still work."""
    path = trainer.directory(ended).path / "replay.pt"
    with path.open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(RunFileError, match="67,108,865 bytes"):
        trainer.client.read_file(ended, "replay.pt")
    assert trainer.client.read_file(ended, "replay.pt", offset=-4).data == b"\0" * 4
    assert trainer.client.download(ended, "replay.pt", tmp_path / "copy") == 64 * 2**20 + 1


def test_a_run_in_the_trash_keeps_its_files_until_it_is_purged(
    trainer: Trainer, ended: str
) -> None:
    """What was deleted can still be looked at; what was purged is gone."""
    trainer.client.delete(ended)
    assert trainer.client.read_file(ended, "config.json").document()["metadata"]
    assert trainer.client.config(ended)["metadata"]
    trainer.client.delete(ended, purge=True)
    with pytest.raises(RunNotFoundError):
        trainer.client.files(ended)
