"""The result of a run: success and return with intervals, tokens, cost, speed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from llm_worker.play.actions import Json
from llm_worker.play.budget import Spent
from llm_worker.play.game import EpisodeResult

Z95 = 1.959964
RESAMPLES = 2000


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share; (0, 1) without trials."""
    if not trials:
        return 0.0, 1.0
    share, z2 = successes / trials, Z95**2
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    spread /= 1 + z2 / trials
    # At 0 and 1 one bound is exact; rounding must not push it out.
    return (0.0 if not successes else max(0.0, middle - spread)), (
        1.0 if successes == trials else min(1.0, middle + spread)
    )


def bootstrap(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of the mean; the same values give the same interval."""
    if not values:
        return 0.0, 0.0
    chance = random.Random(seed)
    count = len(values)
    means = sorted(sum(chance.choices(values, k=count)) / count for _ in range(RESAMPLES))
    return means[int(RESAMPLES * 0.025)], means[int(RESAMPLES * 0.975) - 1]


def summarise(results: Sequence[EpisodeResult], spent: Spent, budget_reason: str) -> Json:
    """What `summary.json` and `mosaic llm play --json` say."""
    whole = [r for r in results if r.outcome not in ("budget", "stopped")]
    judged = [r for r in whole if r.success is not None]
    won = sum(bool(r.success) for r in judged)
    returns = [r.total for r in whole]
    steps = sum(r.steps for r in results)
    seconds = sum(r.seconds for r in results)
    stopped = any(r.outcome == "stopped" for r in results)
    return {
        "outcome": "budget" if budget_reason else "stopped" if stopped else "completed",
        "budget": budget_reason,
        "episodes": len(whole),
        "success": won / len(judged) if judged else None,
        "success_interval": list(wilson(won, len(judged))) if judged else None,
        "return": sum(returns) / len(returns) if returns else None,
        "return_interval": list(bootstrap(returns)) if returns else None,
        "steps": steps,
        "steps_per_second": round(steps / seconds, 2) if seconds else None,
        "requests": spent.requests,
        "tokens": {
            "in": spent.tokens_in,
            "out": spent.tokens_out,
            "cached": spent.tokens_cached,
        },
        "cost": None if spent.cost is None else round(spent.cost, 6),
        "seconds": round(seconds, 3),
        "per_episode": [
            {
                "episode": r.episode,
                "seed": r.seed,
                "steps": r.steps,
                "return": r.total,
                "outcome": r.outcome,
            }
            for r in results
        ],
    }
