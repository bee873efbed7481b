"""Tracking: one stable identity, proxies only when asked for, keys in the environment alone."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import harness

from cleanrl_worker import wandb_environment
from cleanrl_worker.analytics import build_manifest
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.running.bridge import Bridge
from cleanrl_worker.running.wandb_logging import init_or_offline

RUN_ID = "01K9ZZZZZZZZZZZZZZZZZZZZZZ"


def _told(given: dict[str, str], **extras: Any) -> dict[str, str]:
    config = CleanRLWorkerConfig.from_document(
        {"run_id": RUN_ID, "algo": "ppo", "extras": {"track_wandb": True, **extras}}
    )
    return wandb_environment.environment(config, Path("run"), given)


@pytest.mark.parametrize(
    ("extras", "given", "expected"),
    [
        ({}, {"WANDB_VPN_HTTP_PROXY": "http://vpn:1"}, None),
        ({"wandb_http_proxy": "http://mine:2"}, {}, None),
        ({"wandb_use_vpn_proxy": True}, {"WANDB_VPN_HTTP_PROXY": "http://vpn:1"}, "http://vpn:1"),
        (
            {"wandb_use_vpn_proxy": True, "wandb_http_proxy": "http://mine:2"},
            {"WANDB_VPN_HTTP_PROXY": "http://vpn:1"},
            "http://mine:2",
        ),
        (
            {"wandb_use_vpn_proxy": True, "wandb_http_proxy": "secret://wandb_http_proxy"},
            {"MOSAIC_SECRET_WANDB_HTTP_PROXY": "http://me:password@mine:2"},
            "http://me:password@mine:2",
        ),
        ({"wandb_use_vpn_proxy": True}, {}, "http://file:3"),
    ],
)
def test_proxies_are_used_only_when_switched_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    extras: dict[str, Any],
    given: dict[str, str],
    expected: str | None,
) -> None:
    """Explicit fields win, then the environment, then `.env`; otherwise there is none."""
    (tmp_path / ".env").write_text("WANDB_VPN_HTTP_PROXY=http://file:3\n")
    monkeypatch.chdir(tmp_path)
    assert _told(given, **extras).get("WANDB_HTTP_PROXY") == expected


def test_the_projects_own_file_reaches_a_run_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run works in its own directory; `.env` is in the project, as the window reads it."""
    project, run_dir = tmp_path / "project", tmp_path / "run"
    project.mkdir()
    run_dir.mkdir()
    (project / ".env").write_text("WANDB_VPN_HTTPS_PROXY=http://project:4\n")
    monkeypatch.setattr(wandb_environment, "project_root", lambda: project)
    monkeypatch.chdir(run_dir)
    assert _told({}, wandb_use_vpn_proxy=True)["WANDB_HTTPS_PROXY"] == "http://project:4"


def test_without_a_key_it_is_offline_and_with_one_it_is_not(tmp_path: Path) -> None:
    """A key may come from the config, the environment or a netrc file."""
    nothing = {"NETRC": str(tmp_path / "none")}
    assert _told(nothing)["WANDB_MODE"] == "offline"
    assert "WANDB_MODE" not in _told(nothing, wandb_api_key="k" * 40)
    assert "WANDB_MODE" not in _told({**nothing, "WANDB_API_KEY": "k" * 40})
    netrc = tmp_path / "netrc"
    netrc.write_text("machine api.wandb.ai login user password secret\n")
    assert "WANDB_MODE" not in _told({"NETRC": str(netrc)})


def test_a_tracked_run_keeps_its_id_and_hides_its_key(tmp_path: Path) -> None:
    """The W&B run has the MOSAIC run's id; the key is in no file and no line of the run."""
    canary = "CANARY" + "0" * 34
    config = tmp_path / "config.json"
    extras = {"track_wandb": True, "wandb_api_key": canary, "wandb_project_name": "mine"}
    document = {"run_id": RUN_ID, "algo": "ppo", "env_id": "CartPole-v1", "extras": extras}
    config.write_text(json.dumps({**document, "total_timesteps": 512}))
    run_dir = tmp_path / "run"
    worker = harness.run(run_dir, "--config", str(config), WANDB_MODE="offline")
    manifest = json.loads((run_dir / "analytics.json").read_text())
    assert manifest["artifacts"]["wandb"]["run_id"] == RUN_ID.lower()
    assert manifest["artifacts"]["wandb"]["mode"] == "offline"
    assert manifest["artifacts"]["wandb"]["project"] == "mine"
    assert canary not in worker.said()
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if canary.encode() in path.read_bytes()] == []


def test_tensorboard_can_be_switched_off(tmp_path: Path) -> None:
    """No event file is written, and the manifest says so; the run's own metrics stay."""
    config = tmp_path / "config.json"
    document = {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 512}
    config.write_text(json.dumps({**document, "extras": {"tensorboard_enabled": False}}))
    harness.run(tmp_path / "run", "--config", str(config))
    manifest = json.loads((tmp_path / "run" / "analytics.json").read_text())
    assert manifest["artifacts"]["tensorboard"]["enabled"] is False
    assert not list((tmp_path / "run").rglob("*tfevents*"))
    assert list((tmp_path / "run" / "metrics").iterdir())


@pytest.mark.parametrize(
    ("variable", "scheme", "answer"),
    [
        ("WANDB_BASE_URL", "http", None),
        ("WANDB_BASE_URL", "http", b"this is no web server\r\n\r\n"),
        ("WANDB_BASE_URL", "https", b"nor does it speak TLS\r\n\r\n"),
        ("WANDB_HTTP_PROXY", "http", None),
        ("WANDB_HTTP_PROXY", "http", b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"),
        ("WANDB_HTTP_PROXY", "http", b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_n11_wrong_hosts_and_proxies_make_tracking_go_offline(
    variable: str, scheme: str, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody there, a broken answer, a broken TLS, a proxy that cannot: said, and gone offline."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WANDB_BASE_URL", "http://host.invalid")
        monkeypatch.setenv(variable, f"{scheme}://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_INIT_TIMEOUT", "5")
        monkeypatch.delenv("WANDB_MODE", raising=False)
        if answer is None:
            server.close()
        else:
            threading.Thread(target=_answer_once, args=(server, answer), daemon=True).start()
        asked: list[dict[str, Any]] = []
        init_or_offline(lambda **options: asked.append(options), Bridge(), {"project": "p"})
    assert asked == [{"project": "p", "mode": "offline"}]


def test_where_wandb_shows_a_run_is_known_while_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B says it when it begins: the default team and a server of one's own are in it."""
    page = SimpleNamespace(url="http://own:8080/me/p/runs/x", entity="me", project="p", id="x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_INIT_TIMEOUT", "30")
        monkeypatch.delenv("WANDB_MODE", raising=False)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        threading.Thread(target=_answer_once, args=(server, answer), daemon=True).start()
        assert init_or_offline(lambda **_: page, Bridge(), {"dir": str(tmp_path)}) is page
    (tmp_path / "wandb" / "run-20260101_000000-x").mkdir()
    config = CleanRLWorkerConfig.from_document({"algo": "ppo", "extras": {"track_wandb": True}})
    said = build_manifest(config, tmp_path)["artifacts"]["wandb"]
    assert (said["url"], said["entity"], said["run_id"]) == (page.url, "me", "x")


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)
