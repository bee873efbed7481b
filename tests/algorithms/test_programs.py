"""A second start of the same shapes takes the program of the first one, and no other program."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support import harness

from cleanrl_worker.cleanrl import ppo_ondevice
from cleanrl_worker.ondevice import inputs, programs
from cleanrl_worker.ondevice.programs import Lowered, Programs, Stored
from cleanrl_worker.running.verification import train

ARGS = ppo_ondevice.Args(env_id="CartPole-v1")


def _lowered(function: Any) -> Lowered:
    one = np.float32(0)
    return Lowered(jax.jit(lambda x: x + 1.0).lower(one), jax.jit(function).lower(one))


def _written(function: Any) -> bytes:
    # As the product does it: another test of this process may have turned JAX's own cache on.
    with programs._without_cache():
        begin, chunk = (one.compile() for one in _lowered(function))
    return programs.write(Programs(begin, chunk, 7))


def test_what_is_kept_computes_the_same_and_damage_is_noticed(tmp_path: Path) -> None:
    """A program is read back with the memory it needs; of a damaged file nothing is used."""
    path, devices = tmp_path / "kept" / "program", jax.devices()[:1]
    stored = Stored({"code.py": (1, 2)}, "name", _written(lambda x: x * 3.0))
    programs.keep(path, stored)
    assert programs.read(path) == stored
    found = programs.load(stored.written, devices)
    assert found is not None
    assert (float(found.begin(np.float32(1))), float(found.chunk(np.float32(2)))) == (2.0, 6.0)
    assert found.needed == 7
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert programs.read(path) is None
    path.write_bytes(b"")
    assert programs.read(path) is None
    other = pickle.dumps("another version's")
    path.write_bytes(hashlib.sha256(other).digest() + other)
    assert programs.read(path) is None
    assert programs.load(b"no program", devices) is None


def test_code_that_was_changed_is_not_taken_for_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed, missing, or newer than the modules of this process: nothing is said to be equal."""
    code = tmp_path / "code.py"
    code.write_text("one = 1\n")
    # A warm process that began before the last change has the old module in memory.
    monkeypatch.setattr(programs, "BEGAN_NS", code.stat().st_ctime_ns)
    assert programs.as_now([str(code)]) is None
    monkeypatch.setattr(programs, "BEGAN_NS", time.time_ns() + 10**12)
    seen = programs.as_now([str(code)])
    assert seen is not None
    assert seen == programs.as_now(seen)
    os.utime(code, (1.0, 1.0))
    assert seen != programs.as_now(seen)
    code.unlink()
    assert seen != programs.as_now(seen)


def test_programs_that_call_python_are_not_kept() -> None:
    """They hold the address of a function in this process; LAPACK's functions are found again."""

    def tells(x: Any) -> Any:
        jax.debug.callback(lambda _value: None, x)
        return x

    def solves(x: Any) -> Any:
        return jax.numpy.linalg.qr(x * jax.numpy.eye(3))[0]

    assert not programs.can_be_kept(_lowered(tells))
    assert programs.can_be_kept(_lowered(solves))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"learning_rate": 0.1, "seed": 9, "total_timesteps": 77, "run_dir": "x"}, True),
        ({"num_envs": 8}, False),
        ({"anneal_lr": False}, False),
        ({"target_kl": 0.02}, False),
        ({"env_id": "Acrobot-v1"}, False),
    ],
)
def test_settings_that_shape_the_program_are_told_from_its_inputs(
    change: dict[str, Any], same: bool
) -> None:
    """Another learning rate, seed or length is the same program; another shape or branch is not."""
    settings = inputs.shaping_settings(replace(ARGS, **change))
    assert (settings == inputs.shaping_settings(ARGS)) == same


def test_nothing_of_one_run_is_in_its_program() -> None:
    """A program serves other runs too: it is made without the seed, the folder and their like."""
    seen = inputs.seen_inside(replace(ARGS, seed=9, run_dir="x", num_envs=8, num_seeds=4))
    assert (seen.seed, seen.run_dir, seen.num_seeds, seen.num_envs) == (1, None, 1, 8)


_WITHOUT_TRACING = """
import runpy
from cleanrl_worker.ondevice.learner import Learner
Learner._lowered = None
runpy.run_module("cleanrl_worker.cleanrl.ppo_ondevice", run_name="__main__", alter_sys=True)
"""


def test_a_second_start_traces_nothing_and_trains_to_the_same_bits(tmp_path: Path) -> None:
    """The program of an earlier run is found by its settings and files alone."""
    flags = ["--no-cuda", "--total-timesteps", "1024", "--seed", "3"]
    train("ppo_ondevice", tmp_path / "first", *flags)
    command = [
        sys.executable,
        "-c",
        _WITHOUT_TRACING,
        *flags,
        "--run-dir",
        str(tmp_path / "second"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (harness.newest_state(tmp_path / name) for name in ("first", "second"))
    for part in ("policy", "objects", "random"):
        assert harness.equal(first[part], second[part]), part
