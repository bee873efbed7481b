"""Random choices with a generator that a checkpoint can hold."""

from __future__ import annotations

import json
import zlib

import numpy as np

from cleanrl_worker.kit.types import Array, StateDict


class Random(np.random.Generator):
    """NumPy's generator, with a state that can be saved and restored.

    Args:
        seed: the run's seed.
        purpose: what the numbers are for. Each purpose has a stream of its own, and none has that
            of an environment seeded with the same number: otherwise exploration would follow the
            environment's own noise.
    """

    def __init__(self, seed: int, purpose: str = "agent") -> None:
        stream = np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])
        super().__init__(np.random.PCG64(stream))

    def categorical(self, logits: Array) -> Array:
        """One sample for each row of unnormalised log-probabilities (the Gumbel trick)."""
        chosen: Array = (logits - np.log(self.standard_exponential(logits.shape))).argmax(axis=-1)
        return chosen

    def state_dict(self) -> StateDict:
        """The generator's position."""
        return {"state": json.dumps(self.bit_generator.state)}

    def load_state_dict(self, state: StateDict) -> None:
        """Go back to a position."""
        self.bit_generator.state = json.loads(state["state"])
