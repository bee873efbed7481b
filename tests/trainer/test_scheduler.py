"""Who may start, who waits, and what those who wait are told."""

from dataclasses import replace

from mosaic.config.settings import Settings
from mosaic.trainer.core.events import Request
from mosaic.trainer.core.scheduler import Claim, Machine, plan
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.launch.hardware import Gpu
from mosaic.trainer.loop.slots import SlotTable, count

TWO_CPUS = Machine(cpus=("cpu:0", "cpu:1"))


def claim(name: str, cpus: int = 1, priority: int = 0, **request: int) -> Claim:
    return Claim(name, Request(cpus=cpus, **request), priority, order=name)


def test_oldest_first() -> None:
    """Free slots go to the oldest; the next one learns who holds what it needs."""
    machine = Machine(cpus=("cpu:0", "cpu:1"), held={"cpu:0": "runner"})
    result = plan([claim("b"), claim("a"), claim("c")], machine)
    assert result.grants == {"a": ("cpu:1",)}
    assert result.waits["b"] == "waiting for 1 CPU slot; held by runner"
    named = plan([claim("a"), claim("b")], replace(machine, names={"runner": "ppo, seed 3"}))
    assert named.waits["b"] == "waiting for 1 CPU slot; held by ppo, seed 3"
    assert result.waits["c"].endswith("(1 ahead in the queue)")


def test_priority_goes_before_age() -> None:
    """A higher priority overtakes."""
    result = plan([claim("old"), claim("urgent", priority=5)], Machine(cpus=("cpu:0",)))
    assert list(result.grants) == ["urgent"]


def test_a_large_run_is_not_starved() -> None:
    """Small runs cannot overtake a large one on the slots it waits for."""
    machine = Machine(cpus=("cpu:0", "cpu:1"), held={"cpu:0": "runner"})
    result = plan([claim("large", cpus=2), claim("small")], machine)
    assert result.grants == {}


def test_others_run_beside_a_run_that_waits_for_a_gpu() -> None:
    """A run waiting for a GPU does not hold up those that need none."""
    machine = Machine(cpus=("cpu:0", "cpu:1"), gpus=("gpu:0",), held={"gpu:0": "trainer"})
    result = plan([claim("gpu", gpus=1, gpus_mandatory=1), claim("cpu")], machine)
    assert list(result.grants) == ["cpu"]
    assert "waiting for 1 GPU; held by trainer" in result.waits["gpu"]


def test_what_can_never_fit_says_so() -> None:
    """A run larger than the machine is told the machine's size and holds nobody up."""
    claims = [claim("huge", cpus=9), claim("gpus", gpus=3, gpus_mandatory=3), claim("small")]
    claims.append(claim("memory", memory_mb=10))
    result = plan(claims, TWO_CPUS)
    assert result.grants == {"small": ("cpu:0",)}
    assert result.waits["memory"] == "needs 10 MB of memory, this machine has 0 MB"
    assert result.waits["huge"] == "needs 9 CPU slots, this machine has 2"
    assert result.waits["gpus"].startswith("needs 3 GPUs, this machine has 0")


def test_optional_gpus_are_optional() -> None:
    """GPUs that are asked for but not mandatory do not keep a run waiting for ever."""
    assert plan([claim("a", gpus=2)], TWO_CPUS).grants == {"a": ("cpu:0",)}


def test_memory_is_reserved() -> None:
    """Memory that was promised is not given twice."""
    machine = Machine(cpus=("cpu:0", "cpu:1"), memory_mb=8000, memory_held_mb=6000)
    result = plan([claim("a", memory_mb=4000)], machine)
    assert result.waits["a"] == "waiting for 4,000 MB of memory, 2,000 MB are free"


def test_hold_stops_everybody() -> None:
    """While the daemon drains or the disk is full nothing starts, and everybody knows why."""
    result = plan([claim("a"), claim("b")], TWO_CPUS, hold="the disk is full")
    assert result.grants == {}
    assert result.waits == {"a": "the disk is full", "b": "the disk is full"}


def test_p19_gpu_still_held_after_the_end() -> None:
    """A GPU that still shows a process of an ended run is draining, and the next run knows."""
    gpus = [Gpu(0, "Test GPU", 5000, frozenset({77}))]
    table = SlotTable(Settings(), probe=lambda: gpus)
    table.drain(["gpu:0", "cpu:0"], [77, 78])
    busy = table.picture([])
    assert busy.draining == {"gpu:0"}
    waits = plan([claim("next", gpus=1, gpus_mandatory=1)], busy).waits
    assert "gpu:0 still shows a process of a run that ended" in waits["next"]
    gpus[0] = Gpu(0, "Test GPU", 10, frozenset())
    assert table.picture([]).draining == frozenset()


def test_p20_gpus_follow_the_hardware() -> None:
    """A GPU that is gone is not given out; a run that has one keeps it."""
    gpus = [Gpu(0, "A", 0, frozenset()), Gpu(1, "B", 0, frozenset())]
    table = SlotTable(Settings(), probe=lambda: gpus)
    runner = Run("r", state=State.EXEC, slots=("cpu:0", "gpu:1"))
    assert table.picture([runner]).gpus == ("gpu:0", "gpu:1")
    del gpus[1]
    after = table.picture([runner])
    assert after.gpus == ("gpu:0",)
    assert after.held["gpu:1"] == "r"


def test_a_gpu_somebody_else_uses_is_left_alone() -> None:
    """With the setting on, a GPU busy with another program is not given out."""
    table = SlotTable(
        Settings(gpu_idle_memory_mb=100), probe=lambda: [Gpu(0, "A", 900, frozenset({1}))]
    )
    waits = plan([claim("a", gpus=1, gpus_mandatory=1)], table.picture([])).waits
    assert "gpu:0 is used by another program (900 MB)" in waits["a"]


def test_counting() -> None:
    """Waiting runs and those at work are counted apart."""
    runs = [Run("a"), Run("b", slots=("cpu:0",)), Run("c", state=State.EXEC, slots=("cpu:1",))]
    assert count(runs) == (1, 2)


class _Counted(dict[str, str]):
    """Who holds which slot; counts how often that is asked."""

    asked = 0

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return super().__contains__(key)


def test_a_long_queue_asks_once_who_holds_the_slots() -> None:
    """2,000 runs that wait for 1,000 nodes cost a plan hardly more than two of them do."""
    slots = tuple(f"cpu:{number}" for number in range(200))
    claims = [Claim(f"w{number:04}", Request(), order=f"w{number:04}") for number in range(400)]

    def asked(count: int) -> int:
        held = _Counted({slot: f"r{slot}" for slot in slots})
        found = plan(claims[:count], Machine(slots, held=held))
        assert len(found.waits) == count
        return held.asked

    assert asked(400) == asked(2)
