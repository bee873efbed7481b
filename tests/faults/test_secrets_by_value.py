"""A credential is kept by what it is: submitted, exported, imported, whatever its name."""

import json
import tarfile
from pathlib import Path

import pytest
from cli.conftest import Command
from support.trainer import Trainer, until

from mosaic.config.credentials import holds_credential
from mosaic.errors import InvalidConfigError

PASSWORD = "Canary-7f3a-Value"
PROXY = f"http://user:{PASSWORD}@proxy.example:3128"
ENVIRONMENT = {
    "OPENAI_KEY": PASSWORD,
    "DB_PASS": PASSWORD,
    "MYSQL_PWD": PASSWORD,
    "DATABASE_URL": f"postgres://u:{PASSWORD}@db.example/x",
    "PLAIN": "seen by everybody",
}


def _files_with(root: Path, needle: str) -> set[Path]:
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {path for path in files if needle.encode() in path.read_bytes()}


def _content(archive: Path) -> bytes:
    with tarfile.open(archive) as opened:
        members = [opened.extractfile(member) for member in opened]
        return b"".join(member.read() for member in members if member)


def test_f05_a_credential_is_stored_by_reference(trainer: Trainer) -> None:
    """Passwords in addresses and variables reach the worker, and no file but the private store."""
    config = trainer.config("steady", environment=ENVIRONMENT, extras={"wandb_http_proxy": PROXY})
    run_id = trainer.client.submit(config).run_id
    pid = trainer.wait_for(run_id, "EXEC").pid
    until(lambda: trainer.steps(run_id), "it makes steps")
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    for name, value in {**ENVIRONMENT, "MOSAIC_SECRET_WANDB_HTTP_PROXY": PROXY}.items():
        assert f"{name}={value}" in variables
    assert _files_with(trainer.home.root, PASSWORD) == {trainer.home.secrets / f"{run_id}.json"}
    stored = json.loads(trainer.directory(run_id).config.read_text())
    assert stored["environment"]["PLAIN"] == "seen by everybody"
    assert stored["environment"]["DB_PASS"] == "secret://DB_PASS"


def test_f05_a_clone_gets_the_credential_again(trainer: Trainer) -> None:
    """The stored configuration, submitted again as it is, gives its worker the same values."""
    first = trainer.submit("short", environment=ENVIRONMENT)
    trainer.ended(first)
    clone = json.loads(trainer.directory(first).config.read_text())
    clone["metadata"]["worker"]["config"]["algo"] = "steady"
    again = trainer.client.submit(clone, parent_run_id=first).run_id
    pid = trainer.wait_for(again, "EXEC").pid
    assert f"DB_PASS={PASSWORD}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_f05_a_credential_in_another_place_is_refused(trainer: Trainer) -> None:
    """Where a credential would be stored as it is, the run is refused, without showing it."""
    key = "hf_" + "aB3dE5gH7jK9" * 3
    for fields, where in (
        ({"run_name": f"run with {key}"}, "/run_name"),
        (
            {"extras": {"algo_params": {"server": PROXY}}},
            "/metadata/worker/config/extras/algo_params/server",
        ),
        ({"extras": {"notes": f"log in with {key}"}}, "/metadata/worker/config/extras/notes"),
    ):
        with pytest.raises(InvalidConfigError) as refused:
            trainer.client.submit(trainer.config("short", **fields))
        (problem,) = refused.value.problems
        assert (problem.code, problem.pointer) == ("CFG122", where)
        assert "environment" in problem.message
        assert key not in str(refused.value)
        assert PASSWORD not in str(refused.value)
    assert trainer.run_ids() == []


def test_f05_no_credential_leaves_with_an_export(trainer: Trainer, tmp_path: Path) -> None:
    """Neither a stored value nor its password alone leaves, nor what an older version wrote."""
    mosaic = Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))
    config = trainer.config("short", environment=ENVIRONMENT, extras={"wandb_http_proxy": PROXY})
    run_id = trainer.client.submit(config).run_id
    trainer.ended(run_id)
    directory = trainer.directory(run_id)
    with directory.stdout.open("a") as log:
        log.write(f"proxy said no to {PASSWORD}\nftp://me:Other-Canary@host/\n")
    # As before there was a store for them: the values themselves are in the configuration.
    old = json.loads(directory.config.read_text())
    old["environment"] = {**ENVIRONMENT, "OLD_KEY": "Older-Canary"}
    directory.config.write_text(json.dumps(old))
    file = tmp_path / "run.tar.gz"
    mosaic("export", run_id, "-o", str(file))
    content = _content(file)
    for canary in (PASSWORD, "Other-Canary", "Older-Canary"):
        assert canary.encode() not in content
    assert b"seen by everybody" in content


def test_f05_a_file_that_cannot_be_cleaned_stays(trainer: Trainer, tmp_path: Path) -> None:
    """A secret of several lines in a text file keeps that file at home, with the reason."""
    mosaic = Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))
    words = "\n".join(["first line of it", "second line of it"])
    run_id = trainer.submit("short", environment={"MY_SECRET": words})
    trainer.ended(run_id)
    run_dir = trainer.directory(run_id).path
    # The cleaner works on pieces that end at a line: this puts the end of one inside the secret.
    lead = "x" * (2**20 - len("first line of it\n") - 1) + "\n"
    (run_dir / "notes.txt").write_text(lead + words + "\n")
    file = tmp_path / "run.tar.gz"
    done = mosaic.json("export", run_id, "-o", str(file))["runs"][0]
    assert {"path": "notes.txt", "why": "it holds a secret of this home"} in done["left_out"]
    assert b"second line of it" not in _content(file)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("task-0123456789abcdef0123", ""),
        ("https://example.org/a:b@c", ""),
        ("http://user:[removed]@host", ""),
        ("episodic_return", "sort_key"),
        ("/home/me/a-very-long-path-0123456789", "PWD"),
        ("MiniGrid-Empty-8x8-v0", "env_id"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "run_id"),
    ],
)
def test_f05_ordinary_values_are_no_credentials(text: str, name: str) -> None:
    """Paths, ids, addresses without a password and words are stored as they are given."""
    assert holds_credential(text, name) == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("AKIAABCDEFGHIJKLMNOP", ""),
        ("ghp_" + "a1B2" * 9, ""),
        ("sk-proj-" + "a1B2" * 10, ""),
        ("wandb_v1_" + "a1B2" * 10, ""),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", ""),
        ("9f8e7d6c5b4a39281706f5e4d3c2b1a0", "SERVICE_KEY"),
        ("redis://:pw@cache:6379/0", ""),
    ],
)
def test_f05_known_formats_are_credentials(text: str, name: str) -> None:
    """Keys of the usual services, private keys and passwords in addresses are recognised."""
    assert holds_credential(text, name)
