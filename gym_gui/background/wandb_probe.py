"""Whether W&B's server can be reached; may take seconds, so never asked on the GUI thread."""

import time

from mosaic.system.web import unreachable

_WANDB = "https://api.wandb.ai/healthz"
# A firewall that drops packets answers only by silence; longer than this, people give up.
_LIMIT_S = 8.0


def probe_wandb(proxy: str = "", address: str = _WANDB) -> str:
    """Try to reach W&B and say in a sentence how it went."""
    way = f"through {proxy}" if proxy else "directly"
    begun = time.monotonic()
    reason = unreachable(address, _LIMIT_S, {"http": proxy, "https": proxy} if proxy else None)
    if reason:
        return f"W&B cannot be reached {way}: {reason}. Runs are tracked offline until it can."
    return f"W&B answers {way} in {(time.monotonic() - begun) * 1000:.0f} ms"
