"""Pictures of the pages in a real browser, made from real runs; `make screenshots` runs it."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

_CHROMIUM = "/usr/bin/chromium"
_MOSAIC = str(Path(sys.executable).with_name("mosaic"))
_SIZE = {"width": 1200, "height": 860}
_TRAIN = ("train", "ppo", "--env-id", "CartPole-v1", "--detach")


def main() -> int:
    """Train, open the pages, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "MOSAIC_HOME": home}

        def mosaic(*words: str) -> str:
            return subprocess.run(
                [_MOSAIC, *words], env=environment, check=True, capture_output=True, text=True
            ).stdout.strip()

        mosaic("up")
        for seed in "1234":
            run = mosaic(*_TRAIN, "--total-timesteps", "20000", "--seed", seed,
                         "--tag", "experiment=baseline")  # fmt: skip
            mosaic("watch", run)
        run = mosaic(*_TRAIN, "--total-timesteps", "5e7", "--name", "Balance the pole")
        pages = subprocess.Popen(
            [_MOSAIC, "web", "--port", "0", "--control"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert pages.stdout is not None
            _take(pages.stdout.readline().removeprefix("open: ").strip(), run, out)
        finally:
            pages.terminate()
            pages.wait()
            mosaic("down", "--stop-runs")
    return 0


def _take(entrance: str, run: str, out: Path) -> None:
    origin = entrance.partition("/enter")[0]
    with sync_playwright() as playwright:
        arguments = ["--disable-gpu", "--disable-background-networking"]
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=arguments)
        page = browser.new_page(viewport=_SIZE)
        page.goto(entrance)
        page.wait_for_selector("#runs")
        page.goto(f"{origin}/runs/{run}")
        page.wait_for_selector(".chart canvas")
        _settle(page, "document.querySelector('#frames').naturalWidth > 0")
        # Enough of a curve to see that it learns.
        time.sleep(20)
        page.screenshot(path=out / "web_run.png")
        page.goto(f"{origin}/experiments/baseline")
        page.wait_for_selector("#bands canvas")
        page.screenshot(path=out / "web_experiment.png")
        browser.close()


def _settle(page: Page, condition: str, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    # Not by the library's own waiting: it evaluates text, which the pages' policy forbids.
    while not page.evaluate(condition):
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
