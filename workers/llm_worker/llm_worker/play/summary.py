"""The result of a run: success and return with intervals, tokens, cost, speed."""

from __future__ import annotations

from collections.abc import Sequence

from llm_worker.play.actions import Json
from llm_worker.play.budget import Spent
from llm_worker.play.game import EpisodeResult
from mosaic.statistics.episodes import mean_interval, wilson


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
        "return_interval": list(mean_interval(returns) or ()) or None,
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
