"""Who may see the pages: the door's rules, each of which keeps one kind of visitor out."""

import pytest

from mosaic.web.access import Door

OWN = {"host": "127.0.0.1:8710"}


def let_in(door: Door) -> dict[str, str]:
    """The headers of a browser that was let in."""
    session = door.redeem(door.entrance.rpartition("=")[2])
    return {**OWN, "cookie": f"other=1; {door.cookie}={session}"}


def test_an_address_lets_in_one_browser() -> None:
    """An address from a history or a chat opens nothing; the next one is announced at once."""
    announced: list[str] = []
    door = Door(8710, announce=announced.append)
    first = door.entrance
    assert door.redeem(first.rpartition("=")[2])
    assert announced == [door.entrance]
    assert door.redeem(first.rpartition("=")[2]) is None
    assert door.entrance != first


@pytest.mark.parametrize("cookie", ["", "mosaic_web_8710=", "mosaic_web_8710=guess", "=;=;\x00"])
def test_a_stranger_sees_nothing(cookie: str) -> None:
    """Without the cookie of a session there is no page, whatever is sent instead."""
    refusal = Door(8710).refusal("GET", "/", {**OWN, "cookie": cookie})
    assert refusal is not None
    assert refusal.status == 401


def test_a_session_of_another_server_opens_nothing() -> None:
    """Cookies do not know ports: one server's cookie also reaches the next one on this machine."""
    headers = let_in(Door(8711))
    assert Door(8710).refusal("GET", "/", {**headers, **OWN}) is not None


@pytest.mark.parametrize("host", ["", "evil.example:8710", "127.0.0.1:1", "127.0.0.1"])
def test_a_name_that_only_points_here_is_refused(host: str) -> None:
    """A site that lets its name resolve to this machine does not get at the pages by it."""
    door = Door(8710)
    refusal = door.refusal("GET", "/", {**let_in(door), "host": host})
    assert refusal is not None
    assert refusal.status == 421


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "https://127.0.0.1:8710"])
def test_another_site_changes_nothing(origin: str | None) -> None:
    """What changes a run must come from our own pages."""
    door = Door(8710, control=True)
    headers = let_in(door) | ({} if origin is None else {"origin": origin})
    refusal = door.refusal("POST", "/runs/X/cancel", headers)
    assert refusal is not None
    assert refusal.status == 403


def test_pages_are_read_only_unless_asked() -> None:
    """Without --control no page changes anything; with it our own pages may."""
    for control in (False, True):
        door = Door(8710, control=control)
        headers = {**let_in(door), "origin": "http://127.0.0.1:8710"}
        assert door.refusal("GET", "/", headers) is None
        assert (door.refusal("POST", "/runs/X/cancel", headers) is None) is control


def test_a_page_runs_our_own_script_and_shows_in_chosen_frames_only() -> None:
    """No inline script, no other host; in a frame only of the pages that --embed names."""
    policy = Door(8710).response_headers()["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    embedded = Door(8710, embed=("http://localhost:8888",)).response_headers()
    assert "frame-ancestors http://localhost:8888" in embedded["content-security-policy"]
