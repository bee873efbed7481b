"""The pages over HTTP, in front of a real daemon."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from .conftest import MOSAIC, Served, serving


def test_strangers_are_refused_over_the_wire(web: Served) -> None:
    """No cookie, a wrong host, a form of another site: each is refused, in a sentence."""
    address = f"{web.origin}/"
    assert httpx.get(address, trust_env=False).status_code == 401
    with web.browser() as browser:
        assert browser.get("/").status_code == 200
        assert browser.get("/", headers={"host": "evil.example"}).status_code == 421
        cookie = browser.cookies
        assert all(one.has_nonstandard_attr("HttpOnly") for one in cookie.jar)
        assert all(one.get_nonstandard_attr("SameSite") == "strict" for one in cookie.jar)
        run = web.trainer.stepping()
        elsewhere = {"origin": "http://evil.example"}
        assert browser.post(f"/runs/{run.run_id}/cancel", headers=elsewhere).status_code == 403
        assert web.trainer.client.get(run.run_id).live
        ours = {"origin": web.origin}
        assert browser.post(f"/runs/{run.run_id}/cancel", headers=ours).status_code == 303
    assert web.trainer.ended(run.run_id).outcome == "cancelled"


def test_what_is_not_there_is_said(web: Served) -> None:
    """An unknown run, experiment or page is a sentence with its status, never a traceback."""
    with web.browser() as browser:
        for path in ("/runs/01M00000000000000000000000", "/nothing", "/experiments/none"):
            answer = browser.get(path)
            assert answer.status_code == 404, answer.text
            assert "Not found" in answer.text
        assert browser.get("/compare").status_code == 400
        assert browser.get("/runs/../../etc/passwd").status_code == 404
        assert browser.get("/static/../app.py").status_code == 404


def test_names_and_notes_are_shown_and_not_obeyed(web: Served) -> None:
    """Markup in a run's name is text on every page."""
    name = "<img src=x onerror=alert(1)>"
    run_id = web.trainer.submit("steady", run_name=name)
    with web.browser() as browser:
        until(lambda: run_id in browser.get("/").text, "the run is listed")
        for path in ("/", f"/runs/{run_id}", f"/runs/{run_id}/episodes"):
            text = browser.get(path).text
            assert name not in text
            assert "&lt;img" in text
    web.trainer.client.cancel(run_id, grace_s=1.0)
    web.trainer.ended(run_id)


def test_health_alarms_are_on_the_page_of_a_run(web: Served) -> None:
    """What is wrong, what to try, and the command that goes back to before it."""
    run = web.trainer.ended(web.trainer.submit("diverges"))
    with web.browser() as browser:
        address = f"/runs/{run.run_id}"
        until(lambda: "kl-explosion" in browser.get(address).text, "the alarm is shown")
        page = browser.get(address).text
    assert "the policy moves by a KL divergence of 5" in page
    assert "Try: lower learning_rate" in page
    assert f"mosaic fork {run.run_id} --at 500" in page


def test_runs_are_found_as_in_the_window(web: Served) -> None:
    """The filter of the run table works here too, and a wrong field is named with the right one."""
    run_id = web.trainer.submit("steady", run_name="needle")
    with web.browser() as browser:

        def find(text: str) -> httpx.Response:
            return browser.get("/", params={"text": text})

        until(lambda: run_id in find("name:needle").text, "it is found by its field")
        assert run_id in find("needle algo:steady").text
        assert run_id not in find("-needle").text
        wrong = find("stat:running")
        assert wrong.status_code == 400
        assert "did you mean &#39;state&#39;?" in wrong.text
    web.trainer.client.cancel(run_id, grace_s=1.0)
    web.trainer.ended(run_id)


def test_a_restarted_daemon_is_found_again(
    make_trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    """Pages stay usable while the daemon is away, say so, and follow the next one."""
    trainer = make_trainer().start()
    with serving(trainer, tmp_path) as served, served.browser() as browser:
        trainer.kill()
        until(lambda: "mosaic up" in browser.get("/").text, "the page says that it is away")
        trainer.start()
        run_id = trainer.submit("steady")
        until(lambda: run_id in browser.get("/").text, "the new daemon's run is listed")


def test_a_taken_port_is_said(web: Served, trainer: Trainer) -> None:
    """The message names the port and the way out."""
    port = web.origin.rpartition(":")[2]
    done = subprocess.run(
        [MOSAIC, "web", "--port", port],
        env=trainer.environment(MOSAIC_HOME=str(trainer.home.root)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert f"port {port} cannot be used" in done.stderr
    assert "--port 0" in done.stderr


@pytest.mark.parametrize("origin", ["localhost:8888", "http://a b", "http://x/'self'"])
def test_a_wrong_origin_is_refused(trainer: Trainer, origin: str) -> None:
    """`--embed` goes into a policy that browsers obey; only an origin gets there."""
    done = subprocess.run(
        [MOSAIC, "web", "--port", "0", "--embed", origin],
        env=trainer.environment(MOSAIC_HOME=str(trainer.home.root)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "is no origin" in done.stderr
