"""The real browser that tests look at pages with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_CHROMIUM = "/usr/bin/chromium"
# A browser asks for updates and word lists as it starts; nothing here may leave the machine. It
# shows only our own pages, so it does without a sandbox, which root and many containers cannot
# have.
_QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-gpu",
    "--disable-quic", "--disable-sync", "--no-first-run", "--no-sandbox",
    "--disable-dev-shm-usage",
)  # fmt: skip


@contextmanager
def browsing() -> Iterator[Any]:
    """Debian's Chromium without a screen, until the end of the block."""
    if not Path(_CHROMIUM).exists():
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=list(_QUIET))
        yield browser
        browser.close()
