"""The window's TensorBoard answers its window and nobody else."""

import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.patience import PATIENCE_S

from gym_gui.background.tensorboard import TensorBoardServer


def test_f34_tensorboard_answers_below_a_secret_path_only(qapp: Any, tmp_path: Path) -> None:
    """Without the path that the window knows every request is refused, and no list shows it."""
    server = TensorBoardServer(idle_minutes=1)
    server.start(str(tmp_path))
    try:
        # It imports for many seconds on a busy machine.
        deadline = time.monotonic() + PATIENCE_S
        while not server.address and time.monotonic() < deadline:
            qapp.processEvents()
            time.sleep(0.05)
        address = urlsplit(server.address)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{server.address}data/logdir", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        for path in ("/", "/data/logdir", "/data/runs"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                direct.open(f"http://{address.netloc}{path}", timeout=PATIENCE_S)
            with refused.value:
                assert refused.value.code == 404
        secret = address.path.strip("/")
        assert len(secret) > 20
        assert secret.encode() not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
    finally:
        server.stop()
        server.wait()
