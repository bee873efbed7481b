"""How much of a step of SAC and TD3 on the device is multiplying matrices.

    python -m benchmarks.ondevice_floor [--rounds 3]

Beside the algorithm, a program with nothing but the large products of one step (256 rows through
layers of 256 by 256), compiled by the same compiler. No design of the loop saves those: they are
the floor, and the torch files pay for them as well. Short and long runs in turns, by processor
time with one thread; see `benchmarks.ondevice` for why. The result is
`benchmarks/results/ondevice_floor.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from benchmarks.ondevice import CONTENDERS, Contender

RESULT = Path(__file__).parent / "results" / "ondevice_floor.json"
# The products of one step on average. SAC: 9 for the critics (the actor and two targets forward,
# two critics forward and twice back) and 7 for the actor (itself forward and twice back, two
# critics forward and once back). TD3 updates the actor every second step: itself forward and
# twice back, one critic forward and once back, so 5 halves.
PRODUCTS = {"sac_ondevice": 16.0, "td3_ondevice": 11.5}
_PROGRAM = """
import sys
import jax
import jax.numpy as jnp

def multiply(_, rows):
    return rows @ weights * 0.06

weights = jax.random.normal(jax.random.PRNGKey(0), (256, 256))
rows = jax.random.normal(jax.random.PRNGKey(1), (256, 256))
jax.jit(lambda rows, count: jax.lax.fori_loop(0, count, multiply, rows))(
    rows, int(float(sys.argv[1]))
).block_until_ready()
"""


def products() -> Contender:
    """A program that only multiplies."""
    command = (sys.executable, "-c", _PROGRAM, "{steps}")
    return Contender("floor", "products", command, 1_000, 20_000)


def main() -> None:
    """Measure the two algorithms and the products, round by round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    chosen = [*(one for one in CONTENDERS if one.name in PRODUCTS), products()]
    milliseconds: dict[str, list[float]] = {one.name: [] for one in chosen}
    for _ in range(options.rounds):
        for one in chosen:
            milliseconds[one.name].append(1000 / one.rate())
            print(one.name, round(milliseconds[one.name][-1], 3), file=sys.stderr, flush=True)
    median = {name: statistics.median(found) for name, found in milliseconds.items()}
    record = {
        "command": f"python -m benchmarks.ondevice_floor --rounds {options.rounds}",
        "unit": "milliseconds of processor time for a step; for one product of 256 x 256 x 256",
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "milliseconds": {
            name: [round(one, 3) for one in found] for name, found in milliseconds.items()
        },
        "share_of_products": {
            name: round(count * median["products"] / median[name], 2)
            for name, count in PRODUCTS.items()
        },
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(record["share_of_products"])


if __name__ == "__main__":
    main()
