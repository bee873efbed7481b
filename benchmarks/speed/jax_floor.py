"""How quick DDPG and TD3 in JAX could be at best on one core: the time of their large products.

    python -m benchmarks.speed.jax_floor

With 256 transitions in an update and layers of 256 units nearly all arithmetic is products of two
256 x 256 matrices, which ours and the peer's need alike. The rest (activations, Adam, the targets,
the environment, Python) is what one can be better at. Result:
`benchmarks/results/speed/jax_floor.json`.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np

from benchmarks.speed.sbx import RESULTS, stay_on_one_core

_SIZE, _REPEATS, _ROUNDS = 256, 12, 25
# How often a step multiplies forward, back to the inputs, and back to the weights.
_PRODUCTS = {
    "ddpg_continuous_action_jax": {"forward": 5.0, "to_inputs": 3.0, "to_weights": 2.0},
    "td3_continuous_action_jax": {"forward": 6.0, "to_inputs": 3.0, "to_weights": 2.5},
}


def product_seconds() -> dict[str, float]:
    """Processor time of one product of each kind, the best of many interleaved rounds."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import jax

    one, other = np.random.default_rng(0).normal(size=(2, _SIZE, _SIZE)).astype(np.float32)
    kinds: dict[str, Any] = {
        "forward": jax.jit(lambda x, y: x @ y),
        "to_inputs": jax.jit(lambda x, y: x @ y.T),
        "to_weights": jax.jit(lambda x, y: x.T @ y),
    }
    x, y = jax.device_put(one), jax.device_put(other)
    best = dict.fromkeys(kinds, float("inf"))
    for _ in range(_ROUNDS):
        for name, multiply in kinds.items():
            multiply(x, y).block_until_ready()
            began = time.process_time()
            for _ in range(_REPEATS):
                multiply(x, y).block_until_ready()
            best[name] = min(best[name], (time.process_time() - began) / _REPEATS)
    return best


def main() -> None:
    """Measure, compare with the records, and write the result."""
    stay_on_one_core()
    seconds = product_seconds()
    scripts = {}
    for script, counts in _PRODUCTS.items():
        record = json.loads((RESULTS / f"{script}-Pendulum-v1.json").read_text(encoding="utf-8"))
        ours, peer = (
            1e3 / max(cpu for _, cpu in record["all_runs"][side]) for side in ("ours", "peer")
        )
        products = 1e3 * sum(count * seconds[kind] for kind, count in counts.items())
        scripts[script] = {
            "products_ms": round(products, 2),
            "ours_ms": round(ours, 2),
            "peer_ms": round(peer, 2),
            "ratio_without_the_products": round((peer - products) / (ours - products), 2),
            "highest_possible_ratio": round(peer / products, 2),
        }
        print(f"{script}: {scripts[script]}")
    content = {
        "what": "milliseconds of processor time for one environment step with its update",
        "product_us": {name: round(1e6 * value) for name, value in seconds.items()},
        "scripts": scripts,
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": "python -m benchmarks.speed.jax_floor",
    }
    path = RESULTS / "jax_floor.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
