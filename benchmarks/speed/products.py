"""The floor under SAC, TD3 and DDPG: the matrix products that a step cannot do without.

    python -m benchmarks.speed.products

With two hidden layers of 256 and batches of 256 almost all arithmetic is products of two 256 by
256 matrices: one forward through a network, two backward (the weights' and the inputs' gradient).
Times one such product on one thread, in torch and in NumPy, and multiplies by how many an
environment step needs. Result: `benchmarks/results/speed/products.json`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.speed.run import RESULTS

SIZE = 256

# Products in an environment step, in the order: the target's value, the critics' update, the
# actor's update. TD3's actor learns in every second step. The peer also computes the critics'
# weight gradients in the actor's update, and follows both critics where only one was smaller.
NEEDED = {
    "sac_continuous_action": {"ours": [3, 6, 1 + 2 + 1 + 2], "peer": [3, 6, 1 + 2 + 4 + 2]},
    "td3_continuous_action": {"ours": [3, 6, 5 / 2], "peer": [3, 6, 6 / 2]},
    "ddpg_continuous_action": {"ours": [2, 3, 5], "peer": [2, 3, 6]},
}


def main() -> None:
    """Time the products and write the record."""
    torch.set_num_threads(1)
    shapes = measure()
    product = sum(min(times.values()) for times in shapes.values()) / len(shapes)
    record: dict[str, Any] = {
        "microseconds": shapes,
        "billion_operations_a_second": round(2 * SIZE**3 / product / 1e3, 1),
        "products_a_step": NEEDED,
        "milliseconds_a_step_at_least": {
            name: {side: round(sum(parts) * product / 1e3, 2) for side, parts in sides.items()}
            for name, sides in NEEDED.items()
        },
        "load_average": os.getloadavg()[0],
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": "OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.products",
    }
    path = RESULTS / "products.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


def measure() -> dict[str, dict[str, float]]:
    """Microseconds of the three kinds of product, by each library."""
    rows, weight, grad = (torch.randn(SIZE, SIZE) for _ in range(3))
    out = torch.empty(SIZE, SIZE)
    arrays = [tensor.numpy() for tensor in (rows, weight, grad, out)]
    return {
        "forward": {
            "torch": _best(lambda: torch.mm(rows, weight.t(), out=out)),
            "numpy": _best(lambda: np.matmul(arrays[0], arrays[1].T, out=arrays[3])),
        },
        "inputs' gradient": {
            "torch": _best(lambda: torch.mm(grad, weight, out=out)),
            "numpy": _best(lambda: np.matmul(arrays[2], arrays[1], out=arrays[3])),
        },
        "weights' gradient": {
            "torch": _best(lambda: torch.mm(grad.t(), rows, out=out)),
            "numpy": _best(lambda: np.matmul(arrays[2].T, arrays[0], out=arrays[3])),
        },
    }


def _best(work: Callable[[], Any], rounds: int = 500) -> float:
    """The quickest of many single calls, which a busy machine leaves alone."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return round(min(times) * 1e6, 1)


if __name__ == "__main__":
    main()
