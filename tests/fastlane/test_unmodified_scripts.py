"""Scripts that know nothing of MOSAIC are shown, whatever way they build their environments."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from support.colour_world import COLOURS
from support.frames import StartPython, StartTrainee, colour_at, until, watch

from mosaic.fastlane import FrameReader

SITE = Path(__file__).parents[2] / "workers/cleanrl_worker/cleanrl_worker/fastlane/site"

# The picture of one environment is 30 wide and 20 high.
QUADRANTS = [(10, 15), (10, 45), (30, 15), (30, 45)]


def test_one_environment(start_trainee: StartTrainee, run_id: str) -> None:
    """A script with one environment shows its picture, rewards, returns and speed."""
    start_trainee("one")
    with FrameReader(run_id) as reader:
        frame = watch(reader, lambda frame: frame.step_rate_hz > 0)
        assert frame.pixels.shape == (20, 30, 3)
        assert colour_at(frame, 10, 15) == COLOURS[0]
        assert frame.last_reward == 1.0
        assert frame.rolling_return == pytest.approx(10.0)
        assert watch(reader).step > frame.step > 0


@pytest.mark.parametrize("kind", ["sync", "async-fork", "async-spawn"])
def test_a_grid_shows_each_environment_in_its_place(
    start_trainee: StartTrainee, run_id: str, kind: str
) -> None:
    """`grid` tiles the first environments in order, in one process or in several."""
    start_trainee(kind, CLEANRL_FASTLANE_MODE="grid", CLEANRL_FASTLANE_GRID_LIMIT="4")
    with FrameReader(run_id) as reader:
        frame = watch(
            reader,
            lambda frame: frame.pixels.shape == (40, 60, 3) and any(colour_at(frame, 30, 45)),
        )
        assert [colour_at(frame, *place) for place in QUADRANTS] == COLOURS[:4]


def test_a_grid_has_a_limit(start_trainee: StartTrainee, run_id: str) -> None:
    """`fastlane_grid_limit` environments are shown, not more."""
    start_trainee("sync", CLEANRL_FASTLANE_MODE="grid", CLEANRL_FASTLANE_GRID_LIMIT="2")
    with FrameReader(run_id) as reader:
        frame = watch(reader, lambda frame: frame.pixels.shape == (20, 60, 3))
        assert [colour_at(frame, 10, column) for column in (15, 45)] == COLOURS[:2]


@pytest.mark.parametrize("kind", ["sync", "async-fork"])
def test_single_shows_the_chosen_slot(start_trainee: StartTrainee, run_id: str, kind: str) -> None:
    """`fastlane_slot` picks the environment that `single` shows."""
    start_trainee(kind, CLEANRL_FASTLANE_SLOT="2")
    with FrameReader(run_id) as reader:
        frame = watch(reader)
        assert frame.pixels.shape == (20, 30, 3)
        assert colour_at(frame, 10, 15) == COLOURS[2]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("make_vec-sync", (400, 600, 3)),
        ("make_vec-async", (400, 600, 3)),
        ("make_vec-native", (400, 600, 3)),
        ("make_vec-atari", (84, 84, 3)),
    ],
)
def test_make_vec(
    start_trainee: StartTrainee, run_id: str, kind: str, shape: tuple[int, ...]
) -> None:
    """`make_vec` is covered too; Atari's native vector environment shows what it observes."""
    start_trainee(kind)
    with FrameReader(run_id) as reader:
        frame = watch(reader, lambda frame: frame.pixels.std() > 0)
        assert frame.pixels.shape == shape


def test_a_native_vector_environment_as_grid(start_trainee: StartTrainee, run_id: str) -> None:
    """The environments of one vector are tiled, within the picture size asked for."""
    start_trainee("make_vec-native", CLEANRL_FASTLANE_MODE="grid", CLEANRL_FASTLANE_MAX_DIM="300")
    with FrameReader(run_id) as reader:
        frame = watch(reader, lambda frame: frame.pixels.std() > 0)
        assert frame.pixels.shape == (100, 300, 3)
        assert not np.array_equal(frame.pixels[:, :150], np.zeros((100, 150, 3)))


def test_off_shares_nothing(start_trainee: StartTrainee, run_id: str, lane_folder: Path) -> None:
    """With mode `off` the script runs as if FastLane did not exist."""
    start_trainee("one", CLEANRL_FASTLANE_MODE="off")
    with FrameReader(run_id) as reader:
        assert reader.wait(1.0) is None
        assert not reader.attached
    assert list(lane_folder.iterdir()) == []


def test_n12_nan_rewards_do_not_spoil_the_view(start_trainee: StartTrainee, run_id: str) -> None:
    """A reward that is no number is shown as such; the return stays unknown, frames go on."""
    start_trainee("nan")
    with FrameReader(run_id) as reader:
        frame = watch(reader)
        assert np.isnan(frame.last_reward)
        assert np.isnan(frame.rolling_return)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("render", "the paint has dried up"), ("text", "no render mode 'rgb_array'")],
)
def test_what_cannot_be_rendered_is_said_once(
    start_trainee: StartTrainee, run_id: str, kind: str, reason: str
) -> None:
    """An environment that raises in `render`, or has no pictures, trains on; viewer and log are
    told why, once."""
    child = start_trainee(kind)
    with FrameReader(run_id) as reader:
        until(lambda: bool(reader.wait(0.1) is None and reader.notice))
        assert reason in reader.notice
        assert reader.alive
        until(lambda: reason in child.complaints())
        assert child.complaints().count(reason) == 1
    assert child.process.poll() is None


def test_n12_nothing_stays_when_the_script_is_killed(
    start_trainee: StartTrainee, run_id: str
) -> None:
    """kill -9 of a vectorised script: what its processes shared is removed."""
    child = start_trainee("sync", CLEANRL_FASTLANE_MODE="grid")
    with FrameReader(run_id) as reader:
        watch(reader)
        child.kill()
        until(lambda: not reader.alive)


def test_a_watched_script_still_obeys_sigterm(start_trainee: StartTrainee, run_id: str) -> None:
    """Drawing libraries like to take over SIGTERM: a watched run must stay cancellable."""
    child = start_trainee("cartpole")
    with FrameReader(run_id) as reader:
        watch(reader)
        child.process.send_signal(signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
        until(lambda: not reader.alive)


def test_another_sitecustomize_still_runs(start_python: StartPython, tmp_path: Path) -> None:
    """The user's own sitecustomize is run too, and a broken one does not stop training."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys; sys.was_here = __file__\n")
    path = os.pathsep.join([str(SITE), str(theirs)])
    code = "import sys; print(sys.was_here, sys.meta_path[0].__class__.__name__)"
    child = start_python("-c", code, PYTHONPATH=path)
    assert child.line().split() == [str(theirs / "sitecustomize.py"), "_GymnasiumFinder"]

    (theirs / "sitecustomize.py").write_text("raise RuntimeError('theirs is broken')\n")
    child = start_python("-c", "print('still here')", PYTHONPATH=path)
    assert child.line() == "still here\n"
    assert child.wait() == 0
    assert "theirs is broken" in child.complaints()


def test_interpreters_without_gymnasium_are_left_alone(
    start_python: StartPython, run_id: str, lane_folder: Path
) -> None:
    """Helpers such as multiprocessing's resource tracker load nothing and share nothing."""
    code = (
        "from multiprocessing import resource_tracker, shared_memory\n"
        "block = shared_memory.SharedMemory(create=True, size=64)\n"
        "tracker = resource_tracker._resource_tracker._pid\n"
        "maps = open(f'/proc/{tracker}/maps').read()\n"
        "children = open(f'/proc/{tracker}/task/{tracker}/children').read()\n"
        "import sys\n"
        "print([name for name in ('numpy', 'gymnasium', 'mosaic') if name in sys.modules],\n"
        "      [name for name in ('numpy', 'mosaic-') if name in maps], children.split())\n"
        "block.close(); block.unlink()\n"
    )
    child = start_python("-c", code, PYTHONPATH=str(SITE), MOSAIC_RUN_ID=run_id)
    assert child.line() == "[] [] []\n", child.complaints()
    assert child.wait() == 0
    assert list(lane_folder.iterdir()) == []


def test_an_interpreter_without_the_worker_package_still_trains(
    start_python: StartPython, run_id: str
) -> None:
    """Where the worker is not installed there are no frames, one sentence, and no error."""
    blocked = (
        "import sys; sys.modules['cleanrl_worker'] = None\n"
        "import gymnasium as gym\n"
        "env = gym.make('CartPole-v1'); env.reset(seed=1); print(len(env.step(0)))\n"
    )
    child = start_python("-c", blocked, PYTHONPATH=str(SITE), MOSAIC_RUN_ID=run_id)
    assert child.line() == "5\n", child.complaints()
    assert child.wait() == 0
    assert child.complaints().count("[fastlane] no live frames") == 1
