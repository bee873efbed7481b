"""Training on the device keeps a run's promises between two chunks of compiled work."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import harness
from support.patience import PATIENCE_S

from cleanrl_worker.cleanrl import ppo_ondevice
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.run import Run
from cleanrl_worker.ondevice import members
from cleanrl_worker.ondevice.pace import MOST_UPDATES, Pace
from cleanrl_worker.ondevice.sweeping import device_count
from cleanrl_worker.running import checked_files, evaluation
from cleanrl_worker.running.verification import run_script, train

PROGRAM = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo_ondevice", "--no-cuda"]
ENDLESS = 512 * 1_000_000


def _started(run_dir: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [*PROGRAM, "--run-dir", str(run_dir), "--total-timesteps", str(ENDLESS), *flags]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _wait_for_a_checkpoint(run_dir: Path, process: subprocess.Popen[bytes]) -> None:
    folder = run_dir / "checkpoints"
    # The file and its checksum are two files, and either may be the last to appear.
    while not any(checked_files.checksum_path(p).exists() for p in folder.glob("step-*.state")):
        assert process.poll() is None, "it ended before it saved"
        time.sleep(0.02)


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="one"),
        pytest.param(
            ("--vmap-sweep", "learning_rate=1e-3,2.5e-4 ent_coef=0,0.01", "--num-seeds", "2"),
            id="sweep",
            # Another program, which takes a quarter of a minute to compile.
            marks=pytest.mark.prove,
        ),
    ],
)
def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """`kill -9` in the middle, at no chosen moment, and resumed: weights, optimiser, environments
    and random keys are those of a run that was never touched, of every member of a sweep too."""
    killed = _started(tmp_path / "killed", "--checkpoint-interval-s", "0.01", *flags)
    _wait_for_a_checkpoint(tmp_path / "killed", killed)
    killed.kill()
    killed.wait()
    # However far it came: nothing here depends on the machine's speed.
    end = harness.newest_state(tmp_path / "killed")["step"] + 20 * 512
    same = ("--no-cuda", "--total-timesteps", str(ENDLESS), "--stop-at", str(end), *flags)
    train("ppo_ondevice", tmp_path / "rest", *same, "--resume", str(tmp_path / "killed"))
    train("ppo_ondevice", tmp_path / "whole", *same)
    whole, rest = harness.newest_state(tmp_path / "whole"), harness.newest_state(tmp_path / "rest")
    assert rest["step"] == whole["step"] == end
    for part in ("policy", "objects", "random"):
        assert harness.equal(whole[part], rest[part]), part


def test_each_seed_is_what_it_is_alone_and_the_best_one_plays(tmp_path: Path) -> None:
    """Seed 3 among four has, on a CPU, the bits of seed 3 alone. One policy file holds all: the one
    with the best return in training plays, or the one that is asked for."""
    steps = ("--no-cuda", "--total-timesteps", "4096")
    train("ppo_ondevice", tmp_path / "alone", *steps, "--seed", "3")
    train("ppo_ondevice", tmp_path / "many", *steps, "--seed", "1", "--num-seeds", "4")
    alone, many = (harness.newest_state(tmp_path / name) for name in ("alone", "many"))
    for part in ("agent", "state"):
        group = "policy" if part == "agent" else "objects"
        for name, value in alone[group][part].items():
            assert torch.equal(value, many[group][part][name][2]), name
    returns = many["policy"]["returns"]
    assert sorted(returns) == ["1", "2", "3", "4"]
    model = evaluation.load_policy(tmp_path / "many")["model"]
    best = members.chosen_member(ppo_ondevice.Args(seed=1, num_seeds=4), model)
    place = int(max(returns, key=lambda seed: returns[seed])) - 1
    assert all(torch.equal(value, model["agent"][name][place]) for name, value in best.items())
    played = evaluation.evaluate(tmp_path / "many", episodes=2, policy_seed=3)
    expected = evaluation.evaluate(tmp_path / "alone", episodes=2)
    assert [one.episodic_return for one in played] == [one.episodic_return for one in expected]
    with pytest.raises(UsageError, match="seeds 1 to 4, not 9"):
        evaluation.evaluate(tmp_path / "many", episodes=1, policy_seed=9)


@pytest.mark.prove
def test_settings_side_by_side_are_what_each_is_alone_on_any_number_of_devices(
    tmp_path: Path,
) -> None:
    """A learning rate among others has, on a CPU, the bits of a run of its own, also where two
    devices share the work. One that diverges ends its own curve only; the best one plays."""
    steps = ("--no-cuda", "--total-timesteps", "2048", "--no-anneal-lr")
    flags = ("--vmap-sweep", "learning_rate=1e-3,1e30", "--torch-threads", "2")
    train("ppo_ondevice", tmp_path / "alone", *steps, "--learning-rate", "1e-3")
    train("ppo_ondevice", tmp_path / "both", *steps, *flags)
    alone, both = (harness.newest_state(tmp_path / name) for name in ("alone", "both"))
    for part in ("agent", "state"):
        group = "policy" if part == "agent" else "objects"
        for name, value in alone[group][part].items():
            assert torch.equal(value, both[group][part][name][0]), name
    assert list(both["policy"]["returns"]) == ["learning_rate=0.001@1"]
    model = evaluation.load_policy(tmp_path / "both")["model"]
    args = ppo_ondevice.Args(vmap_sweep="learning_rate=1e-3,1e30")
    played = members.chosen_member(args, model)
    assert all(torch.equal(value, model["agent"][name][0]) for name, value in played.items())


@pytest.mark.parametrize(
    ("count", "devices", "used"), [(8, 2, 2), (8, 3, 2), (5, 4, 1), (1, 4, 1), (6, 8, 6)]
)
def test_members_are_spread_evenly(count: int, devices: int, used: int) -> None:
    """As many devices as divide the members: none waits for another at the end of a chunk."""
    assert device_count(count, devices) == used


def test_seeds_that_do_not_fit_are_refused_with_the_number_that_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sentence says what is needed, what is free, and the largest number of seeds."""
    args = ppo_ondevice.Args(num_seeds=100)
    sweep = ppo_ondevice.Args(num_seeds=2, vmap_sweep="gamma=0.9,0.95,0.99")
    monkeypatch.setattr(members, "free_memory", lambda: 3 << 30)
    members.refuse_what_does_not_fit(args, 2 << 30)
    with pytest.raises(UsageError, match=r"4.0 GiB, and 3.0 GiB are free: .* --num-seeds 75"):
        members.refuse_what_does_not_fit(args, 4 << 30)
    with pytest.raises(UsageError, match="at most --num-seeds 1"):
        members.refuse_what_does_not_fit(sweep, 4 << 30)
    with pytest.raises(UsageError, match="at most 2 combinations"):
        members.refuse_what_does_not_fit(sweep, 9 << 30)


def test_people_are_told_that_a_run_compiles_and_when_it_is_over() -> None:
    """The compiler does not return to Python: a second thread says for how long it has worked."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    bridge = SimpleNamespace(send=lambda event, text: told.put(f"{event}: {text}"))
    run: Any = SimpleNamespace(bridge=bridge)
    with Run.doing(run, "compiling"):
        assert re.fullmatch(r"doing: compiling, \d+ s", told.get(timeout=PATIENCE_S))
    while (last := told.get(timeout=PATIENCE_S)) != "doing: ":
        assert last.startswith("doing: compiling")
    assert told.empty()


def test_a_signal_is_obeyed_at_the_end_of_a_chunk(tmp_path: Path) -> None:
    """SIGTERM saves where training is, and the exit status says what ended it."""
    process = _started(tmp_path / "run", "--checkpoint-interval-s", "0.01")
    _wait_for_a_checkpoint(tmp_path / "run", process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE_S) == 128 + signal.SIGTERM
    assert 0 < harness.newest_state(tmp_path / "run")["step"] < ENDLESS


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--env-id LunarLander-v3", ["no version in JAX", "CartPole-v1", "without _ondevice"]),
        ("--env-id Pendulum-v1", ["discrete", "CartPole-v1"]),
        ("--num-minibatches 3", ["--num-minibatches 3", "512"]),
        ("--vmap-sweep num_envs=4,8", ["num_envs", "learning_rate", "without --vmap-sweep"]),
        ("--vmap-sweep gama=0.9,0.8", ["'gama'", "did you mean", "gamma"]),
    ],
)
def test_refused_with_a_sentence(flags: str, words: list[str], tmp_path: Path) -> None:
    """Exit status 2 before anything is compiled, no traceback, and the way out is named."""
    output = tmp_path / "output"
    flags_and_dir = [*flags.split(), "--run-dir", str(tmp_path / "run")]
    assert run_script("ppo_ondevice", flags_and_dir, output) == 2
    text = output.read_text()
    assert "Traceback" not in text
    assert [word for word in words if word not in text] == []


def _calls(pace: Pace, stride: int, costs: list[tuple[int, float]], last: int) -> list[float]:
    """The seconds of each call, where an update costs so much from a step on.

    Each is waited for when the next one has been made, as the learner does.
    """
    step, waited_for, spans = 0, 0.0, []
    while step < last:
        updates = pace.updates(step, stride)
        marks = range(step, step + updates * stride, stride)
        taken = sum(next(cost for first, cost in costs[::-1] if mark >= first) for mark in marks)
        pace.took(updates, waited_for)
        waited_for, step = taken, step + updates * stride
        spans.append(taken)
    return spans


@pytest.mark.parametrize("cost", [0.0005, 0.004, 0.1, 2.0])
def test_chunks_grow_to_a_span_of_time(cost: float) -> None:
    """A chunk takes 0.1 to 0.25 seconds on a processor, whatever an update costs; no growth is
    sudden, and a call returns no more rows than it has room for."""
    spans = _calls(Pace(cpu=True), 1, [(0, cost)], 20 * MOST_UPDATES)
    counts = [round(span / cost) for span in spans]
    # A call is made before the one ahead of it was measured, so growth is by that one's size.
    assert all(
        after <= 4 * max(before)
        for *before, after in zip(counts, counts[1:], counts[2:], strict=False)
    )
    assert max(counts) <= MOST_UPDATES
    assert counts[-2] in (1, MOST_UPDATES) or 0.1 <= spans[-2] <= 0.25


def test_a_run_obeys_soon_after_learning_starts() -> None:
    """Steps without learning are a thousand times as quick; what fits them would take a minute."""
    costs = [(0, 0.001), (5000, 0.9)]
    assert max(_calls(Pace(cpu=True, changes_at=5000), 100, costs, 9000)) <= 0.9


def test_chunks_shrink_when_updates_become_slower() -> None:
    """Three calls that are too long are all it takes: the second is made before the first ends."""
    spans = _calls(Pace(cpu=True), 1, [(0, 0.001), (1000, 0.05)], 3000)
    assert sum(span > 0.25 for span in spans) <= 3


def test_threads_of_a_run_are_processors_of_its_own() -> None:
    """With `--torch-threads 2` seeds are computed side by side: building the environments, which
    comes first, leaves open how many processors there are."""
    program = """
from types import SimpleNamespace
from cleanrl_worker.kit.jax_backend import jax, start
from cleanrl_worker.ondevice.batch import DeviceEnvs
DeviceEnvs("CartPole-v1", 4)
start(SimpleNamespace(torch_threads=2, cuda=False, seed=1), members=2)
print(len(jax.devices()))
"""
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "2\n"
