"""Rows X1 to X8 of the fault matrix: strange names, closed doors, secrets, foreign code."""

import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.client.connection import read_token
from mosaic.config.paths import Home, confine
from mosaic.config.validation import validate_train_run_config
from mosaic.connect import auth
from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import ConfinementError, InvalidConfigError, InvalidRunIdError, MosaicError
from mosaic.runs.directory import remove_tree
from mosaic.runs.ids import check_run_id, is_run_id, new_run_id
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc

MakeTrainer = Callable[..., Trainer]
CANARY = "CANARY-b7e1f0c2-do-not-show"

_STRANGE_IDS = [
    "../../x",
    "/etc/passwd",
    "01ARZ3NDEKTSV4RRFFQ69G5FA\0",
    "x" * 300,
    "ＣＯＮ",
    "CON",
    "..",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV/..",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV\n",
    "81ARZ3NDEKTSV4RRFFQ69G5FAV",
    "01ARZ3NDEKTSV4RRFFQ69G5FAI",
    "",
]


@given(st.text(max_size=40) | st.sampled_from(_STRANGE_IDS))
def test_x01_only_ulids_are_run_ids(text: str) -> None:
    """Whatever is not a ULID is refused, and no ULID leads out of the runs' folder."""
    home = Home(Path("/nonexistent/home"))
    if is_run_id(text):
        assert home.run_dir(check_run_id(text)).parent == home.runs
    else:
        with pytest.raises(InvalidRunIdError):
            check_run_id(text)


def test_x01_strange_ids_are_refused_by_every_call(trainer: Trainer) -> None:
    """A strange id is refused in words, touches no file, and the daemon goes on."""
    for call in ("get", "cancel", "pause", "resume", "delete", "events", "restore"):
        for text in filter(str.isprintable, _STRANGE_IDS):
            with pytest.raises(MosaicError, match=r"is not a run id|no run|there is no run"):
                getattr(trainer.client, call)(text)
    assert trainer.client.health().pid == trainer.pid
    assert trainer.run_ids() == []


def test_x01_a_key_never_becomes_a_path(trainer: Trainer, tmp_path: Path) -> None:
    """An idempotency key that looks like a path is only remembered."""
    record = trainer.client.submit(trainer.config("short"), idempotency_key="../../escaped")
    assert is_run_id(record.run_id)
    assert not list(tmp_path.rglob("*escaped*"))


@given(st.text(max_size=60))
def test_x01_confinement(text: str) -> None:
    """A path is inside its root after every link is resolved, or it is refused."""
    root = Path("/usr")
    try:
        assert confine(root, text).is_relative_to(root)
    except (ConfinementError, OSError):
        pass


def test_x02_links_are_not_followed(tmp_path: Path) -> None:
    """Neither reading nor deleting follows a link out of a run."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep me")
    run_dir = tmp_path / "runs" / new_run_id()
    run_dir.mkdir(parents=True)
    (run_dir / "videos").symlink_to(outside)
    (run_dir / "model").symlink_to(outside / "precious.txt")
    with pytest.raises(ConfinementError):
        confine(run_dir, "videos/precious.txt")
    with pytest.raises(ConfinementError):
        confine(run_dir, "model")
    remove_tree(run_dir)
    assert not run_dir.exists()
    assert (outside / "precious.txt").read_text() == "keep me"


def test_x02_a_run_directory_swapped_for_a_link(trainer: Trainer, tmp_path: Path) -> None:
    """Purging a run whose folder was swapped for a link removes the link alone."""
    end = trainer.ended(trainer.submit("short"))
    outside = tmp_path / "outside"
    run_dir = trainer.directory(end.run_id).path
    run_dir.rename(outside)
    run_dir.symlink_to(outside)
    trainer.client.delete(end.run_id, purge=True)
    assert (outside / "config.json").exists()
    assert not os.path.lexists(run_dir)


def test_x02_a_log_that_is_a_link_is_not_served(trainer: Trainer) -> None:
    """A worker that swaps its log for a link shows nobody what the link leads to."""
    run = trainer.stepping()
    directory = trainer.directory(run.run_id)
    directory.stdout.unlink()
    directory.stdout.symlink_to("/etc/passwd")
    trainer.client.cancel(run.run_id)
    trainer.ended(run.run_id)
    assert list(trainer.client.logs(run.run_id, stream="stdout", lifecycle=True)) == []
    assert list(trainer.client.logs(run.run_id, stream="stdout", tail_lines=5)) == []
    assert not (trainer.home.logs / run.run_id / "stdout.log").exists()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7"])
def test_x04_no_open_door_without_tls(make_trainer: MakeTrainer, address: str) -> None:
    """Listening beyond this machine without TLS is refused."""
    trainer = make_trainer()
    refused = trainer.spawn("--listen", address, "--port", "0")
    assert refused.wait(timeout=PATIENCE_S) == 2
    assert f"refusing to listen on {address} without TLS" in trainer.output()


def test_x04_with_tls_the_token_is_still_needed(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    """With a certificate the daemon may listen elsewhere, and still asks for the token."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
    command = (
        f"{request} subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    trainer = make_trainer().start("--listen", "0.0.0.0", "--port", "0", *tls)
    port = find_endpoint(trainer.home).port
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        stub = trainer_pb2_grpc.TrainerStub(channel)
        assert _refusal(stub.ListRuns, pb.ListRunsRequest(), ()) == "UNAUTHENTICATED"
        token = read_token(trainer.home).decode()
        stub.ListRuns(pb.ListRunsRequest(), metadata=(("authorization", f"Bearer {token}"),))


def _refusal(call: Any, request: Any, metadata: tuple[tuple[str, str], ...]) -> str:
    """The status code with which a call is refused."""
    try:
        reply = call(request, metadata=metadata, timeout=PATIENCE_S)
        if isinstance(reply, Iterator):
            next(reply)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.fixture
def stub(trainer: Trainer) -> Iterator[Any]:
    """The daemon's door without any token."""
    with grpc.insecure_channel(find_endpoint(trainer.home).target) as channel:
        yield trainer_pb2_grpc.TrainerStub(channel)


def test_x05_wrong_tokens(trainer: Trainer, stub: Any) -> None:
    """No token, a wrong one, a cut one, one in another place: nobody gets in anywhere."""
    token = read_token(trainer.home).decode()
    attempts: list[tuple[tuple[str, str], ...]] = [
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", f"Bearer {token[:-1]}"),),
        (("authorization", f"Bearer {token}x"),),
        (("authorization", f"Basic {token}"),),
        (("token", token),),
        (("mosaic-run-id", new_run_id()), ("authorization", "Bearer ")),
    ]
    methods = [name for name in trainer_pb2_grpc.TrainerServicer.__dict__ if name[0].isupper()]
    unary = [
        "ListRuns",
        "GetRun",
        "SubmitRun",
        "CancelRun",
        "DeleteRun",
        "Shutdown",
        "WatchRuns",
        "StreamRunLogs",
        "RegisterWorker",
        "GetRunFile",
        "ListRunFiles",
        "GetRunConfig",
    ]
    assert set(unary) < set(methods)
    requests = {"WatchRuns": pb.WatchRunsRequest(), "Shutdown": pb.ShutdownRequest()}
    for name in unary:
        default = pb.SubmitRunRequest if name == "SubmitRun" else pb.GetRunRequest
        request = requests.get(name) or getattr(pb, f"{name}Request", default)()
        for metadata in attempts:
            assert _refusal(getattr(stub, name), request, metadata) == "UNAUTHENTICATED", name
    assert _refusal(stub.GetHealth, pb.GetHealthRequest(), ()) == "OK"
    assert trainer.client.health().pid == trainer.pid


def test_x05_a_worker_speaks_for_its_own_run_only(trainer: Trainer, stub: Any) -> None:
    """A launch key registers one run, a session speaks for one run, and neither is a client."""
    run, other = trainer.stepping().run_id, trainer.stepping().run_id
    token = read_token(trainer.home)
    launch, session = auth.launch_key(token, run), auth.session_token(token, run)

    def as_worker(run_id: str, key: str) -> tuple[tuple[str, str], ...]:
        return (("mosaic-run-id", run_id), ("authorization", f"Bearer {key}"))

    register = pb.RegisterWorkerRequest

    def publish(run_id: str, metadata: tuple[tuple[str, str], ...]) -> str:
        batches = iter([pb.EpisodeBatch(run_id=run_id)])
        return _refusal(stub.PublishRunEpisodes, batches, metadata)

    assert publish(run, as_worker(run, session)) == "OK"
    assert publish(other, as_worker(run, session)) == "PERMISSION_DENIED"
    for metadata in (as_worker(other, session), as_worker(run, launch), as_worker("../x", session)):
        assert publish(other, metadata) == "UNAUTHENTICATED"
    assert _refusal(stub.RegisterWorker, register(run_id=other), as_worker(other, launch)) == (
        "UNAUTHENTICATED"
    )
    assert _refusal(stub.ListRuns, pb.ListRunsRequest(), as_worker(run, session)) == (
        "UNAUTHENTICATED"
    )


def test_x05_an_ended_run_takes_no_worker(trainer: Trainer, stub: Any) -> None:
    """The launch key of a run that has ended opens nothing."""
    run_id = trainer.ended(trainer.submit("short")).run_id
    key = auth.launch_key(read_token(trainer.home), run_id)
    metadata = (("mosaic-run-id", run_id), ("authorization", f"Bearer {key}"))
    request = pb.RegisterWorkerRequest(run_id=run_id, protocol_version=1)
    assert _refusal(stub.RegisterWorker, request, metadata) == "FAILED_PRECONDITION"


def test_x05_the_token_is_private_and_never_shown(trainer: Trainer) -> None:
    """The token lies in a private file and in no log, config or command line."""
    trainer.ended(trainer.submit("short"))
    assert trainer.home.token.stat().st_mode & 0o777 == 0o600
    assert trainer.home.trainer.stat().st_mode & 0o777 == 0o700
    token = read_token(trainer.home)
    assert _files_with(trainer.home.root, token) == [trainer.home.token]
    assert not _processes_showing(token, "cmdline")


def test_x05_a_token_others_can_read_is_refused(trainer: Trainer) -> None:
    """A daemon does not start with a token that others may have read."""
    trainer.kill()
    trainer.home.token.chmod(0o644)
    refused = trainer.spawn()
    assert refused.wait(timeout=PATIENCE_S) == 2
    assert f"chmod 600 {trainer.home.token}" in trainer.output()
    trainer.home.token.chmod(0o600)
    trainer.start()


def _files_with(root: Path, needle: bytes) -> list[Path]:
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and needle in path.read_bytes()
    ]


def _processes_showing(needle: bytes, what: str) -> list[int]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if needle in Path(f"/proc/{entry}/{what}").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found


def test_x06_secret_canary(trainer: Trainer, tmp_path: Path) -> None:
    """A key reaches its worker and its private store, and is found nowhere else, ever."""
    extras = {"wandb_api_key": CANARY, "algo_params": {"hf_token": CANARY}, "crash": True}
    config = trainer.config(
        "reads_secret", extras=extras, environment={"OTHER_API_KEY": CANARY, "PLAIN": "x"}
    )
    seen: list[int] = []
    watching = threading.Event()

    def look_at_command_lines() -> None:
        while not watching.is_set():
            seen.extend(_processes_showing(CANARY.encode(), "cmdline"))

    watcher = threading.Thread(target=look_at_command_lines)
    watcher.start()
    try:
        run_id = trainer.client.submit(config).run_id
        trainer.ended(run_id)
        with pytest.raises(InvalidConfigError) as refused:
            trainer.client.submit(
                {**config, "wandb_api_key": CANARY, "environment": {"MY_SECRET": [CANARY]}}
            )
        assert CANARY not in str(refused.value)
        clone = json.loads(trainer.directory(run_id).config.read_text())
        clone["metadata"]["worker"]["config"]["extras"]["crash"] = False
        again = trainer.client.submit(clone, parent_run_id=run_id).run_id
        assert trainer.ended(again).outcome == "completed"
    finally:
        watching.set()
        watcher.join()
    assert seen == []
    digest = (trainer.directory(again).path / "digest.txt").read_text()
    assert digest == hashlib.sha256(CANARY.encode()).hexdigest()
    stores = {trainer.home.secrets / f"{name}.json" for name in (run_id, again)}
    assert set(_files_with(trainer.home.root, CANARY.encode())) == stores
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in stores)
    assert CANARY not in trainer.output()
    assert CANARY not in json.dumps(trainer.client.get(run_id).to_dict())
    assert CANARY not in str(trainer.client.events(run_id))
    trainer.client.delete(run_id, purge=True)
    trainer.client.delete(again, purge=True)
    assert _files_with(trainer.home.root, CANARY.encode()) == []


def test_x06_only_the_worker_has_the_secret_in_its_environment(trainer: Trainer) -> None:
    """Neither the daemon nor the supervisor carries a run's secret in its environment."""
    config = trainer.config("steady", extras={"wandb_api_key": CANARY})
    run_id = trainer.client.submit(config).run_id
    pid = trainer.wait_for(run_id, "EXEC").pid
    until(lambda: trainer.steps(run_id), "it makes steps")
    assert _processes_showing(CANARY.encode(), "environ") == [pid]


_DENIED = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "OPENSSL_CONF",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "PYTHONWARNINGS",
    "SDL_DYNAMIC_API",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH",
    "QT_PLUGIN_PATH",
    "GIT_SSH_COMMAND",
    "PERL5OPT",
    "PYTHONSTARTUP",
    "PATH",
    "BASH_ENV",
    "MOSAIC_RUN_ID",
    "MOSAIC_HOME",
    "MOSAIC_LAUNCH_KEY",
    "CLEANRL_BRIDGE_FD",
    "A=B",
    "",
]


def test_x08_denied_environment(trainer: Trainer) -> None:
    """A run may not set variables through which it could run foreign code or hide."""
    for name in _DENIED:
        with pytest.raises(InvalidConfigError) as refused:
            trainer.client.submit(trainer.config("short", environment={name: "/tmp/evil.so"}))
        (problem,) = refused.value.problems
        assert (problem.code, problem.pointer) == ("CFG108", f"/environment/{name}")
    assert trainer.run_ids() == []


def test_f21_what_runs_use_is_allowed() -> None:
    """Variables that tune a run, its devices and its libraries may be set by it."""
    usual = (
        "PYTHONHASHSEED", "PYTHONUTF8", "OMP_NUM_THREADS", "MUJOCO_GL",
        "CUDA_LAUNCH_BLOCKING", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG", "XLA_FLAGS",
        "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "PYOPENGL_PLATFORM", "WANDB_MODE", "HF_HOME",
        "PYGLET_HEADLESS", "http_proxy", "TZ", "LANG", "MY_FLAG",
    )  # fmt: skip
    config = {"algo": "short", "env_id": "X", "worker": "rogue"}
    checked = validate_train_run_config({**config, "environment": dict.fromkeys(usual, "1")})
    assert set(checked.environment) == set(usual)


def test_x08_what_is_allowed_reaches_the_worker(trainer: Trainer) -> None:
    """Other variables arrive as they were given."""
    run_id = trainer.submit("steady", environment={"MY_FLAG": "on and on"})
    pid = trainer.wait_for(run_id, "EXEC").pid
    assert b"MY_FLAG=on and on" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
