"""The one way to the daemon: TLS for workers too, wildcard addresses, no environment proxy."""

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.trainer import Trainer, until

from mosaic.client import TrainerClient
from mosaic.config.paths import Home
from mosaic.connect.endpoint import find_endpoint
from mosaic.connect.starting import start_daemon
from mosaic.errors import BindRefusedError, DaemonNotRunningError

MakeTrainer = Callable[..., Trainer]
SOURCES = Path(__file__).parents[2]
NAMES = "DNS:localhost,IP:127.0.0.1"


def make_certificate(folder: Path, name: str = "cert", names: str = NAMES, days: int = 2) -> None:
    """A self-signed pair, `NAME.pem` and `NAME.key`."""
    (folder / "names").write_text(f"subjectAltName={names}\n")
    for command in (
        f"openssl req -newkey rsa:2048 -nodes -subj /CN=box -keyout {name}.key -out {name}.csr",
        f"openssl x509 -req -days {days} -in {name}.csr -signkey {name}.key -extfile names "
        f"-out {name}.pem",
    ):
        subprocess.run(command.split(), check=True, capture_output=True, cwd=folder)


@pytest.fixture
def tls(tmp_path: Path) -> tuple[str, ...]:
    """The options of a daemon with a certificate of this machine."""
    make_certificate(tmp_path)
    return ("--tls-cert", f"{tmp_path}/cert.pem", "--tls-key", f"{tmp_path}/cert.key")


def _job(worker: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"artifacts": {}, "metadata": {"worker": {"type": worker, "config": config}}}


JOBS = {
    "example": _job("example", {"total_timesteps": 20}),
    "cleanrl": _job(
        "cleanrl",
        {
            "algo": "ppo",
            "env_id": "CartPole-v1",
            "total_timesteps": 2048,
            "extras": {"minimal_telemetry": True},
        },
    ),
    "spade_bdi": _job(
        "spade_bdi", {"env_id": "FrozenLake-v1", "extras": {"episodes": 20, "frames": False}}
    ),
}


@pytest.mark.parametrize("worker", JOBS)
def test_f08_workers_join_and_report_over_tls(
    make_trainer: MakeTrainer, tls: tuple[str, ...], worker: str
) -> None:
    """Under a daemon with a certificate a worker shakes hands, reports live and completes."""
    trainer = make_trainer().start("--port", "0", *tls)
    run_id = trainer.client.submit(JOBS[worker]).run_id
    ended = trainer.ended(run_id)
    assert ended.outcome == "completed", ended.reason
    assert "worker_registered" in trainer.kinds(run_id)
    assert ended.progress.step > 0
    if worker != "example":
        told = [item for batch in trainer.client.episodes(run_id) for item in batch.episodes]
        assert told, "telemetry arrives over TLS"


def test_f08_a_worker_follows_its_daemon_to_another_certificate(
    make_trainer: MakeTrainer, tls: tuple[str, ...], tmp_path: Path
) -> None:
    """A daemon that comes back with a renewed certificate gets its worker back."""
    trainer = make_trainer().start("--port", "0", *tls)
    run_id = trainer.client.submit(_job("example", {"total_timesteps": 10**9})).run_id
    trainer.wait_for(run_id, "EXEC")
    trainer.kill()
    make_certificate(tmp_path)
    trainer.start("--port", "0", *tls)
    trainer.client.pause(run_id)
    trainer.wait_for(run_id, "PAUSE")
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).outcome == "cancelled"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "::1", "localhost", "127.0.0.3"])
def test_f23_every_listen_address_can_be_reached(
    make_trainer: MakeTrainer, tls: tuple[str, ...], address: str
) -> None:
    """Clients and workers reach a daemon on any address, also one that its certificate lacks."""
    if ":" in address and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    trainer = make_trainer().start("--listen", address, "--port", "0", *tls)
    ended = trainer.ended(trainer.client.submit(JOBS["example"]).run_id)
    assert ended.outcome == "completed", ended.reason


def test_f08_a_certificate_of_an_authority_is_trusted_by_itself(
    make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    """A certificate that an authority signed works without the authority's own certificate."""
    make_certificate(tmp_path, "authority")
    make_certificate(tmp_path, "leaf", names="DNS:*.example.org")
    sign = (
        "openssl x509 -req -days 2 -in leaf.csr -CA authority.pem -CAkey authority.key "
        "-CAcreateserial -extfile names -out leaf.pem"
    )
    subprocess.run(sign.split(), check=True, capture_output=True, cwd=tmp_path)
    pair = ("--tls-cert", str(tmp_path / "leaf.pem"), "--tls-key", str(tmp_path / "leaf.key"))
    trainer = make_trainer().start("--port", "0", *pair)
    assert trainer.ended(trainer.client.submit(JOBS["example"]).run_id).outcome == "completed"


def test_f08_relative_paths_mean_the_callers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mosaic up --tls-cert cert.pem` finds the file where the command was given."""
    make_certificate(tmp_path)
    monkeypatch.chdir(tmp_path)
    home = Home.locate(tmp_path / "home")
    start_daemon(home, 0, "127.0.0.1", "cert.pem", "cert.key")
    try:
        with TrainerClient.connect(home) as client:
            assert client.health().pid == find_endpoint(home).pid
    finally:
        with TrainerClient.connect(home) as client:
            client.shutdown("stop")
        until(lambda: not home.endpoint.exists(), "the daemon leaves")


def test_f08_unusable_certificates_are_refused_in_a_sentence(
    make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    """Missing, broken, expired or mismatched files are named, with what is wrong about them."""
    make_certificate(tmp_path)
    make_certificate(tmp_path, "other")
    make_certificate(tmp_path, "old", days=-1)
    (tmp_path / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n")
    (tmp_path / "binary.pem").write_bytes(b"\xff\xfe\x00")
    cases = [
        (("none.pem", "cert.key"), "none.pem cannot be used: No such file"),
        (("broken.pem", "cert.key"), "broken.pem cannot be used: it is not a certificate"),
        (("binary.pem", "cert.key"), "binary.pem cannot be used: it is not PEM text"),
        (("cert.pem", "broken.pem"), "broken.pem cannot be used: it is not a private key"),
        (("cert.pem", "other.key"), "other.key cannot be used: it is not the key of"),
        (("old.pem", "old.key"), "old.pem cannot be used: certificate has expired"),
        (("cert.pem", None), "--tls-cert needs --tls-key: give both, or neither"),
        ((None, "cert.key"), "--tls-key needs --tls-cert: give both, or neither"),
    ]
    home = make_trainer().home
    for files, sentence in cases:
        certificate, key = (str(tmp_path / name) if name else None for name in files)
        with pytest.raises(BindRefusedError) as refused:
            start_daemon(home, 0, "127.0.0.1", certificate, key)
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)


def test_f27_a_damaged_announcement_is_named(trainer: Trainer) -> None:
    """A `daemon.json` without its fields is an error in words, for every command."""
    announced = trainer.home.endpoint.read_text()
    for text in ("{}", '{"pid": 1e400}', '{"pid": [], "start_time": 1, "boot_id": ""}'):
        trainer.home.endpoint.write_text(text)
        with pytest.raises(DaemonNotRunningError, match="is damaged"):
            find_endpoint(trainer.home)
    trainer.home.endpoint.write_text("[" * 200_000)
    with pytest.raises(DaemonNotRunningError):
        find_endpoint(trainer.home)
    trainer.home.endpoint.write_text(announced)


class _Proxy:
    """A web proxy that remembers who came."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.heard: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                self.heard.append(connection.recv(1 << 16))

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


@pytest.fixture
def proxy() -> Iterator[_Proxy]:
    """A proxy that nobody should use."""
    made = _Proxy()
    yield made
    made.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_f06_environment_proxies_never_carry_our_calls(
    make_trainer: MakeTrainer,
    proxy: _Proxy,
    tls: tuple[str, ...],
    encrypted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With every proxy variable set, client, worker and telemetry go straight to the daemon."""
    variables = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
    for name in (*variables, *map(str.upper, variables)):
        monkeypatch.setenv(name, proxy.address)
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    trainer = make_trainer().start("--port", "0", *(tls if encrypted else ()))
    run_id = trainer.client.submit(JOBS["spade_bdi"]).run_id
    ended = trainer.ended(run_id)
    assert ended.outcome == "completed", ended.reason
    assert [item for batch in trainer.client.episodes(run_id) for item in batch.episodes]
    assert proxy.heard == []


_ALONE = {
    r"\b(insecure|secure)_channel\(": "mosaic/connect/channel.py",
    r"\bread_json\(\s*\w*home\.endpoint": "mosaic/connect/endpoint.py",
    r"[\"']daemon\.json[\"']": "mosaic/config/paths.py",
}


@pytest.mark.parametrize("pattern", _ALONE)
def test_there_is_one_door_out(pattern: str) -> None:
    """One module opens channels, one reads the announcement: no caller can forget TLS."""
    folders = ("mosaic", "gym_gui", "workers", "benchmarks", "scripts")
    found = [
        str(path.relative_to(SOURCES))
        for folder in folders
        for path in (SOURCES / folder).rglob("*.py")
        if re.search(pattern, path.read_text())
    ]
    found = [name for name in found if not name.startswith("mosaic/wire/")]
    assert set(found) == {_ALONE[pattern]}
