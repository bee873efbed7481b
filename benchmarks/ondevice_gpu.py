"""Steps a second of the programs on the device, on a GPU: prints one JSON object.

    PYTHONPATH=.:workers/cleanrl_worker python benchmarks/ondevice_gpu.py

Needs JAX for the GPU, optax, NumPy, torch, Gymnasium, and our two packages on the path. Each case
compiles its program, takes two chunks to warm up and three that count; the largest rate of the
three is the figure, because the others only show what else the machine did. `seconds` are those of
the chunks that counted.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import jax

from cleanrl_worker.cleanrl import ppo_ondevice
from cleanrl_worker.ondevice import learner

# Environments, seeds, further arguments.
CASES: list[tuple[int, int, dict[str, Any]]] = [
    (4, 1, {}),
    (1024, 1, {}),
    (4096, 1, {}),
    (4, 256, {}),
    (64, 64, {}),
    (2048, 16, {"num_steps": 32}),
]
_CHUNK_S = 1.0


class _NoRun:
    """In the place of a run: nothing is logged or saved."""

    total = 1 << 40

    def check_spaces(self, envs: Any) -> None:
        """Accept any."""


def measure(num_envs: int, num_seeds: int, more: dict[str, Any]) -> dict[str, Any]:
    """Compile one case and time its chunks."""
    args = ppo_ondevice.Args(
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

    ppo_ondevice.Learner = Kept
    ppo_ondevice.train(args, _NoRun())
    compiled_s = time.monotonic() - began
    one = built[0]
    updates, rates, spent = 4, [], []
    for turn in range(5):
        began = time.monotonic()
        one.state, *rest = one._chunk(one.state, one._numbers, jax.numpy.int32(updates))
        jax.block_until_ready(rest)
        took = time.monotonic() - began
        if turn >= 2:
            spent.append(took)
            rates.append(updates * num_envs * args.num_steps * num_seeds / took)
        else:
            updates = max(1, min(learner.MOST_UPDATES, int(updates * _CHUNK_S / took)))
    return {
        "num_envs": num_envs,
        "num_seeds": num_seeds,
        "num_steps": args.num_steps,
        "updates_in_a_chunk": updates,
        "compile_s": round(compiled_s, 1),
        "seconds": [round(took, 3) for took in spent],
        "sps": round(max(rates)),
        "sps_lowest": round(min(rates)),
    }


def main() -> None:
    """Measure every case that fits, the small ones first."""
    result: dict[str, Any] = {
        "algorithm": "ppo_ondevice",
        "env_id": "CartPole-v1",
        "device": str(jax.devices()[0].device_kind),
        "jax": jax.__version__,
        "cases": [],
    }
    for num_envs, num_seeds, more in CASES:
        try:
            result["cases"].append(measure(num_envs, num_seeds, more))
        except Exception as error:  # one case that does not fit must not hide the others
            failed = {"num_envs": num_envs, "num_seeds": num_seeds, "error": repr(error)}
            result["cases"].append(failed)
        print(json.dumps(result["cases"][-1]), file=sys.stderr, flush=True)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
