"""Steps a second of the programs on the device, on a GPU: prints one JSON object.

    PYTHONPATH=.:workers/cleanrl_worker python benchmarks/ondevice_gpu.py [ALGORITHM ...]

Needs JAX for the GPU, optax, NumPy, torch, Gymnasium, and our two packages on the path. Each case
compiles its program, takes two chunks to warm up and three that count; the largest rate of the
three is the figure, because the others only show what else the machine did. `seconds` are those of
the chunks that counted.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import jax

from cleanrl_worker.ondevice import learner

# From the first turn on, so that what is timed is learning.
_AT_ONCE = {"learning_starts": 0, "buffer_size": 100_000}
# Algorithm, environments, seeds, further arguments.
CASES: list[tuple[str, int, int, dict[str, Any]]] = [
    ("ppo_ondevice", 4, 1, {}),
    ("ppo_ondevice", 1024, 1, {}),
    ("ppo_ondevice", 4096, 1, {}),
    ("ppo_ondevice", 4, 256, {}),
    ("ppo_ondevice", 64, 64, {}),
    ("ppo_ondevice", 2048, 16, {"num_steps": 32}),
    ("pqn_ondevice", 1024, 1, {}),
    ("ppo_continuous_ondevice", 1024, 1, {"num_steps": 32}),
    ("ppo_rnn_ondevice", 1024, 1, {}),
    ("dqn_ondevice", 1, 64, _AT_ONCE),
    ("sac_ondevice", 1024, 1, _AT_ONCE),
    ("td3_ondevice", 1024, 1, _AT_ONCE),
]
_CHUNK_S = 1.0


class _NoRun:
    """In the place of a run: nothing is logged or saved."""

    total = 1 << 40

    def check_spaces(self, envs: Any) -> None:
        """Accept any."""

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Tell no one."""
        return nullcontext()


def measure(algorithm: str, num_envs: int, num_seeds: int, more: dict[str, Any]) -> dict[str, Any]:
    """Compile one case and time its chunks."""
    module = importlib.import_module(f"cleanrl_worker.cleanrl.{algorithm}")
    args = module.Args(
        cuda=jax.default_backend() == "gpu",
        num_envs=num_envs,
        num_seeds=num_seeds,
        total_timesteps=_NoRun.total,
        **more,
    )
    built: list[learner.Learner[Any, Any]] = []
    began = time.monotonic()

    class Kept(learner.Learner[Any, Any]):
        def train(self) -> None:
            built.append(self)

    with mock.patch.object(module, "Learner", Kept):
        module.train(args, _NoRun())
    compiled_s = time.monotonic() - began
    one = built[0]
    updates, rates, spent = 4, [], []
    for turn in range(5):
        began = time.monotonic()
        one.state, *rest = one.call(updates)
        jax.block_until_ready(rest)
        took = time.monotonic() - began
        if turn >= 2:
            spent.append(took)
            rates.append(updates * one._stride * num_seeds / took)
        else:
            updates = max(1, min(learner.MOST_UPDATES, int(updates * _CHUNK_S / took)))
    return {
        "algorithm": algorithm,
        "env_id": args.env_id,
        "num_envs": num_envs,
        "num_seeds": num_seeds,
        "steps_in_an_update": one._stride,
        "updates_in_a_chunk": updates,
        "compile_s": round(compiled_s, 1),
        "seconds": [round(took, 3) for took in spent],
        "sps": round(max(rates)),
        "sps_lowest": round(min(rates)),
    }


def main() -> None:
    """Measure every case that fits, or those of the algorithms on the command line."""
    wanted = sys.argv[1:]
    result: dict[str, Any] = {
        "device": str(jax.devices()[0].device_kind),
        "jax": jax.__version__,
        "cases": [],
    }
    for algorithm, num_envs, num_seeds, more in CASES:
        if wanted and algorithm not in wanted:
            continue
        try:
            result["cases"].append(measure(algorithm, num_envs, num_seeds, more))
        except Exception as error:  # one case that does not fit must not hide the others
            case = {"algorithm": algorithm, "num_envs": num_envs, "num_seeds": num_seeds}
            result["cases"].append({**case, "error": repr(error)})
        print(json.dumps(result["cases"][-1]), file=sys.stderr, flush=True)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
