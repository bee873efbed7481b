"""The credit window under every order of events."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mosaic.telemetry.credits import CreditWindow, Turn


class ObedientWorker(RuleBasedStateMachine):
    """A worker that sends only what it has credit for, and a store of any speed."""

    def __init__(self) -> None:
        super().__init__()
        self.account = CreditWindow(window=64, byte_limit=1000)
        self.credit = 0
        self.unstored: list[tuple[int, int]] = []

    @rule()
    def grant(self) -> None:
        self.credit += self.account.grant()

    @rule(count=st.integers(1, 20), size=st.integers(0, 300))
    def send(self, count: int, size: int) -> None:
        count = min(count, self.credit)
        if count:
            self.credit -= count
            self.account.receive(count, size)
            self.unstored.append((count, size))

    @rule()
    def store(self) -> None:
        if self.unstored:
            self.account.store(*self.unstored.pop(0))

    @invariant()
    def memory_is_bounded(self) -> None:
        assert self.account.pending + self.account.outstanding <= self.account.window
        assert self.account.outstanding == self.credit
        assert self.account.overdrawn == 0

    def teardown(self) -> None:
        while self.unstored:
            self.store()
        self.grant()
        assert self.credit > 0, "an empty store must let the worker go on"


TestObedientWorker = ObedientWorker.TestCase


@given(st.integers(1, 500))
def test_sending_without_credit_is_counted(count: int) -> None:
    """A worker that ignores credits is seen, and reading stops before memory does."""
    account = CreditWindow(window=100)
    account.grant()
    account.receive(count, 0)
    assert account.overdrawn == max(0, count - 100)
    assert account.full == (count >= 200)


def test_starvation_is_reported_once_and_only_when_it_lasts() -> None:
    """A window that empties for a moment makes no noise; a lasting stop makes one event."""
    account = CreditWindow(window=10, starve_after_s=1.0)
    account.grant()
    account.receive(10, 0)
    assert account.tick(100.0) is None
    assert account.tick(100.9) is None
    assert account.tick(101.0) is Turn.STARVED
    assert account.tick(105.0) is None
    account.store(10, 0)
    account.grant()
    assert account.tick(105.5) is Turn.RESUMED
    assert account.tick(106.0) is None
