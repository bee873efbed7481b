"""Several processes learn together and never wait for each other in vain."""

from __future__ import annotations

import subprocess
import sys

# Two turns take half a minute on a busy machine; processes that wait for each other, for ever.
_FOR_EVER_S = 400.0

# The mean of two different numbers lies between them: with it as the target, one process alone
# would stop and the other would not.
_TWO_TURNS = """
import torch
from cleanrl_worker.cleanrl.ppo_atari_multigpu import Args, Share
from cleanrl_worker.kit.group import Group

if __name__ == "__main__":
    target = None
    for epochs in (1, 3):
        args = Args(
            cuda=False, local_num_envs=2, num_steps=16, update_epochs=epochs, target_kl=target
        )
        torch.manual_seed(args.seed)
        with Group(Share, args, [torch.device("cpu")] * 2, "gloo", None) as group:
            results = group.turn(args.learning_rate)
            changes = {result[1]["losses/approx_kl"] for result in results}
            assert len(changes) == 1, f"the processes do not agree: {changes}"
            (target,) = changes
"""


def test_processes_stop_an_update_together() -> None:
    """With `--target-kl` the change of the policy is averaged over all processes before it is
    compared, so that none of them waits for gradients that never come."""
    done = subprocess.run(
        [sys.executable, "-c", _TWO_TURNS],
        timeout=_FOR_EVER_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
