"""The frame rate follows from what was asked for and from the share of time it may take."""

import pytest

from cleanrl_worker.fastlane.pacing import FramePacer

MS = 1_000_000


def simulate(pacer: FramePacer, cost_ms: list[float], seconds: float) -> tuple[int, float]:
    """Render whenever due, each frame at the next cost; return frames and time spent in them."""
    now, frames, spent = 0, 0, 0
    pacer.begin(now)
    while now < seconds * 1000 * MS:
        if now >= pacer.due_at:
            cost = int(cost_ms[frames % len(cost_ms)] * MS)
            pacer.rendered(now, now + cost)
            now += cost
            spent += cost
            frames += 1
        now += MS // 10
    return frames, spent / now


def test_cheap_frames_come_at_the_asked_rate() -> None:
    """30 frames a second of 0.1 ms each need no cap."""
    pacer = FramePacer(33 * MS, share=0.02)
    frames, _ = simulate(pacer, [0.1], 10.0)
    assert frames == pytest.approx(303, abs=3)
    assert not pacer.capped


@pytest.mark.parametrize("share", [0.02, 0.06, 0.5])
@pytest.mark.parametrize("costs", [[1.5], [58.0], [1.0, 5.0, 1.0, 1.0], [2.0, 0.5]])
def test_dear_frames_keep_to_their_share(share: float, costs: list[float]) -> None:
    """Whatever a frame costs, rendering takes its share of time and not more, and says so."""
    pacer = FramePacer(10 * MS, share)
    frames, spent = simulate(pacer, costs, 60.0)
    first_is_free = max(costs) / 60_000
    assert spent <= share + first_is_free
    assert frames >= 2
    if min(costs) / share > 10:
        assert pacer.capped
        assert spent >= 0.6 * share


def test_the_first_frame_of_a_viewer_comes_at_once() -> None:
    """Whoever opens a view does not wait for the pace of those before."""
    pacer = FramePacer(33 * MS, share=0.02)
    pacer.rendered(0, 50 * MS)
    pacer.rendered(100 * MS, 150 * MS)
    assert pacer.due_at > 2000 * MS
    pacer.begin(200 * MS)
    assert pacer.due_at == 200 * MS


def test_a_slow_first_frame_does_not_freeze_the_view() -> None:
    """Loading fonts and drivers for the first picture is not held against the second."""
    pacer = FramePacer(33 * MS, share=0.02)
    pacer.begin(0)
    pacer.rendered(0, 800 * MS)
    assert pacer.due_at == 833 * MS
