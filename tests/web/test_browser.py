"""The pages in a real browser: what a person sees, and what closing the tab stops."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.trainer import Trainer, until

from mosaic.client.comparing import compare_runs
from mosaic.presenting import formatting

from .conftest import Served, serving

CARTPOLE = {
    "artifacts": {},
    "metadata": {
        "worker": {
            "type": "cleanrl",
            "config": {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 50_000_000},
        }
    },
}
SPADE = {
    "artifacts": {},
    "metadata": {
        "worker": {
            "type": "spade_bdi",
            "config": {
                "env_id": "FrozenLake-v1",
                "seed": 4,
                "extras": {"episodes": 5, "env_kwargs": {"is_slippery": False}},
            },
        }
    },
}


def visit(chromium: Any, web: Served) -> Any:
    """A page of a browser that was let in; whatever its console reports is collected."""
    page = chromium.new_page(viewport={"width": 1200, "height": 800})
    page.set_default_timeout(60_000)
    page.said = []
    page.on("console", lambda message: page.said.append(f"{message.text} {message.location}"))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.goto(web.entrance)
    page.wait_for_selector("#runs")
    return page


def watched(web: Served, run_id: str) -> bool:
    """Whether the run renders: a viewer has stamped its lane a moment ago."""
    from mosaic.fastlane.lane_reader import LaneReader
    from mosaic.fastlane.segment import Control, lane_folders, lane_prefix

    for folder in lane_folders(Path(web.trainer.client.get(run_id).run_dir)):
        for path in Path(folder).glob(f"{lane_prefix(run_id)}*"):
            if path.suffix:
                continue
            lane = LaneReader(path)
            stamp = int(lane._words[Control.READER_STAMP])
            lane.close()
            return time.monotonic_ns() - stamp < 2_000_000_000
    return False


def test_a_run_is_watched_and_stopped_from_the_browser(chromium: Any, web: Served) -> None:
    """It appears in the open list, its curves grow, its frames move; a button pauses and cancels
    it, and the list of the script's errors stays empty."""
    page = visit(chromium, web)
    run_id = web.trainer.client.submit(CARTPOLE).run_id
    page.click(f"#run-{run_id} a")
    page.wait_for_selector("[data-tag='charts/episodic_return'] canvas")
    until(lambda: page.evaluate("document.querySelector('#frames').naturalWidth"), "a frame")
    seen = page.inner_text("#head")
    until(lambda: page.inner_text("#head") != seen, "the numbers change")
    until(lambda: watched(web, run_id), "the run is asked to render")
    page.click("text=Pause")
    page.wait_for_selector("text=Paused")
    page.click("text=Resume")
    page.wait_for_selector(".state:has-text('Running')")
    page.goto(f"{web.origin}/")
    until(lambda: not watched(web, run_id), "a run that is not looked at does not render")
    page.goto(f"{web.origin}/runs/{run_id}")
    page.click("text=Cancel")
    page.wait_for_selector(".state:has-text('Cancelled')")
    assert web.trainer.ended(run_id).outcome == "cancelled"
    assert page.is_hidden("#live")
    assert page.said == []
    page.close()


def test_an_experiment_is_compared_with_its_interval(chromium: Any, web: Served) -> None:
    """Seeds as one line with a band; the table says how many there are and how sure it is."""
    ids = []
    for seed in (1, 2, 3, 4):
        config = {"algo": "ppo", "env_id": "CartPole-v1", "seed": seed, "total_timesteps": 2048}
        metadata = {"worker": {"type": "cleanrl", "config": config}, "tags": ["experiment=poles"]}
        document = {"artifacts": {}, "metadata": metadata}
        ids.append(web.trainer.client.submit(document).run_id)
    for run_id in ids:
        assert web.trainer.ended(run_id).outcome == "completed"
    page = visit(chromium, web)
    page.wait_for_selector("text=Experiments and sweeps")
    page.click("a[href='/experiments/poles']")
    page.wait_for_selector("#bands canvas")
    assert "4 of 4 runs completed" in page.inner_text("main")
    cells = page.locator("section.wide tr").nth(1).locator("td").all_inner_texts()
    found = compare_runs(web.trainer.client, ids).cells[0]
    assert found.mean_interval is not None
    assert cells[2] == "4"
    assert cells[4] == formatting.number(found.mean)
    low, high = (
        formatting.number(end) for end in (found.mean_interval.low, found.mean_interval.high)
    )
    assert cells[5] == f"{low} to {high}"
    links = page.locator("main a[href^='/runs/']").all_inner_texts()
    assert len(set(links)) == 4, "runs with one title have different links"
    assert page.said == []
    page.close()


def test_an_episode_is_replayed_with_what_the_agent_thought(chromium: Any, web: Served) -> None:
    """Each step has its picture, the decision, the intention and the beliefs behind it."""
    run_id = web.trainer.client.submit(SPADE).run_id
    ended = web.trainer.ended(run_id)
    assert ended.outcome == "completed", ended.reason
    page = visit(chromium, web)
    page.goto(f"{web.origin}/runs/{run_id}/episodes")
    page.click("text=Episode 0")
    page.wait_for_selector("#mind h2")
    until(lambda: page.evaluate("document.querySelector('#picture').naturalWidth"), "a picture")
    assert page.inner_text("#intention").startswith("!act by @")
    assert page.locator("#beliefs li").count() > 0
    before = page.inner_text("#caption")
    page.click("#play")
    until(lambda: page.inner_text("#caption") != before, "the episode plays")
    assert page.said == []
    page.close()


def test_pages_fit_a_phone(chromium: Any, web: Served) -> None:
    """On a narrow screen nothing is wider than the screen but what scrolls by itself."""
    page = visit(chromium, web)
    page.set_viewport_size({"width": 390, "height": 800})
    ended = next(run for run in web.trainer.client.list_runs().runs if run.ended)
    for path in ("/", f"/runs/{ended.run_id}", f"/runs/{ended.run_id}/episodes"):
        page.goto(web.origin + path)
        page.wait_for_selector("main")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.close()


class _Notebook(BaseHTTPRequestHandler):
    """A server on another port whose page holds ours in a frame, as a notebook's output does."""

    shown = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(f'<iframe src="{self.shown}" width=900 height=600></iframe>'.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_notebook_shows_the_runs_in_a_frame(
    trainer: Trainer, chromium: Any, tmp_path: Path
) -> None:
    """Let in once, a browser shows our pages inside the origin that --embed names, in no other."""
    notebook = ThreadingHTTPServer(("127.0.0.1", 0), _Notebook)
    thread = threading.Thread(target=notebook.serve_forever, name="notebook", daemon=True)
    thread.start()
    port = notebook.server_address[1]
    try:
        with serving(trainer, tmp_path, "--embed", f"http://localhost:{port}") as served:
            page = chromium.new_page()
            page.goto(served.entrance.replace("127.0.0.1", "localhost"))
            page.wait_for_selector("#runs", state="attached")
            _Notebook.shown = served.origin.replace("127.0.0.1", "localhost") + "/"
            page.goto(f"http://localhost:{port}/")
            page.frame_locator("iframe").locator("#runs").wait_for(state="attached")
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_load_state("networkidle")
            assert page.frame_locator("iframe").locator("#runs").count() == 0
            page.close()
    finally:
        notebook.shutdown()
        notebook.server_close()
        thread.join(5)
