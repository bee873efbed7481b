"""The frame rate follows from what was asked for and from the share of time it may take."""

import pytest

from mosaic.fastlane.pacing import FramePacer

MS = 1_000_000


def simulate(pacer: FramePacer, cost_ms: list[float], seconds: float) -> tuple[int, float]:
    """Render whenever due, each frame at the next cost; return frames and seconds spent on them."""
    now, frames, spent = 0, 0, 0
    pacer.begin(now)
    while now < seconds * 1000 * MS:
        cost = int(cost_ms[frames % len(cost_ms)] * MS)
        pacer.rendered(now, now + cost)
        spent += cost
        frames += 1
        now = max(now + cost, pacer.due_at)
    return frames, spent / 1e9


def test_cheap_frames_come_at_the_asked_rate() -> None:
    """30 frames a second of 0.1 ms each need no cap."""
    pacer = FramePacer(33 * MS, share=0.02)
    frames, _ = simulate(pacer, [0.1], 10.0)
    assert frames == pytest.approx(303, abs=3)
    assert not pacer.capped


@pytest.mark.parametrize("share", [0.02, 0.06, 0.5])
@pytest.mark.parametrize(
    "costs", [[1.5], [58.0], [1.0, 5.0, 1.0, 1.0], [2.0, 0.5], [1.0, 1.0, 20.0]]
)
def test_dear_frames_keep_to_their_share(share: float, costs: list[float]) -> None:
    """Whatever a frame costs, rendering takes its share of time and hardly more, and says so."""
    pacer = FramePacer(10 * MS, share)
    frames, spent = simulate(pacer, costs, 1000.0)
    free_and_owed = 3.0
    assert spent <= share * 1000.0 + free_and_owed
    assert frames >= 2
    if min(costs) / share > 10:
        assert pacer.capped
        assert spent >= 0.7 * share * 1000.0


def test_a_few_slow_frames_do_not_freeze_the_view() -> None:
    """MiniGrid draws each new kind of tile slowly and then never again: the view stays fluid."""
    costs = [280.0, 156.0, 23.0, 0.5, 168.0, 0.5, 0.5, 166.0, *[0.5] * 1000]
    frames, _ = simulate(FramePacer(33 * MS, share=0.02), costs, 10.0)
    assert frames >= 200


def test_beginnings_that_never_end_are_paid_for() -> None:
    """More slow frames than any beginning has are earned back while frames keep coming."""
    costs = [*[0.5, 160.0] * 20, *[0.5] * 20_000]
    frames, spent = simulate(FramePacer(33 * MS, share=0.02), costs, 400.0)
    assert frames >= 1000
    assert spent <= 0.02 * 400.0 + 1.0


def test_a_busy_machine_gets_fewer_frames() -> None:
    """A process that gets a quarter of a processor spends its share of that quarter."""
    pacer = FramePacer(10 * MS, share=0.02)
    now = waited = frames = 0
    pacer.begin(now)
    while now < 1_000_000 * MS:
        if now >= pacer.due_at and pacer.earned(now, waited):
            pacer.rendered(now, now + 8 * MS, waited, waited + 6 * MS)
            now, waited, frames = now + 8 * MS, waited + 6 * MS, frames + 1
        now, waited = now + 4 * MS, waited + 3 * MS
    ran = now - waited
    assert 0.7 * 0.02 <= frames * 2 * MS / ran <= 0.02 + 1.0 / 250
    assert pacer.capped


def test_the_first_frame_of_a_viewer_comes_at_once() -> None:
    """Whoever opens a view does not wait for the pace of those before."""
    pacer = FramePacer(33 * MS, share=0.02)
    for start in range(0, 500, 100):
        pacer.rendered(start * MS, (start + 50) * MS)
    assert pacer.due_at > 2000 * MS
    pacer.begin(600 * MS)
    assert pacer.due_at == 600 * MS


def test_a_slow_first_frame_does_not_freeze_the_view() -> None:
    """Loading fonts and drivers for the first picture is not held against the second."""
    pacer = FramePacer(33 * MS, share=0.02)
    pacer.begin(0)
    pacer.rendered(0, 800 * MS)
    assert pacer.due_at == 833 * MS
