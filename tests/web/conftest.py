"""A real `mosaic web` in front of a real daemon, and a real browser."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from support.browser import browsing
from support.patience import PATIENCE_S
from support.trainer import Trainer, trainers, until

MOSAIC = str(Path(sys.executable).with_name("mosaic"))


@dataclass
class Served:
    """A running `mosaic web`."""

    process: "subprocess.Popen[str]"
    trainer: Trainer
    _output: Path = field(repr=False)

    @property
    def entrance(self) -> str:
        """The address for the next browser, as it was printed last."""

        def printed() -> str:
            assert self.process.poll() is None, self._output.read_text()
            lines = [line for line in self._output.read_text().splitlines() if "open: " in line]
            return lines[-1].removeprefix("open: ") if lines else ""

        return str(until(printed, "the address is printed"))

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.entrance)
        return f"{parts.scheme}://{parts.netloc}"

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """A client that was let in."""
        with httpx.Client(base_url=self.origin, trust_env=False, timeout=PATIENCE_S) as client:
            assert client.get(self.entrance).status_code == 200
            yield client

    def close(self) -> None:
        """Stop it as Ctrl-C does; it must end by itself, without a word."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) in (0, -15), self._output.read_text()
        assert "Traceback" not in self._output.read_text(), self._output.read_text()


@pytest.fixture(scope="session")
def trainer(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """One daemon for all pages; no test harms it."""
    with trainers(tmp_path_factory.mktemp("web"), python_path) as make:
        yield make().start()


@contextmanager
def serving(trainer: Trainer, folder: Path, *options: str) -> Iterator[Served]:
    """`mosaic web` on a free port, until the end of the block."""
    output = folder / "web.txt"
    with output.open("w") as file:
        process = subprocess.Popen(
            [MOSAIC, "web", "--port", "0", *options],
            env=trainer.environment(MOSAIC_HOME=str(trainer.home.root)),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        served = Served(process, trainer, output)
        yield served
        served.close()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def web(trainer: Trainer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Pages that may also control runs."""
    with serving(trainer, tmp_path_factory.mktemp("served"), "--control") as served:
        yield served


@pytest.fixture
def chromium() -> Iterator[Any]:
    """Debian's Chromium without a screen."""
    with browsing() as browser:
        yield browser
