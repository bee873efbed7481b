"""Evaluation of a saved policy: greedy, seeded, with a summary file."""

from __future__ import annotations

import statistics

from mosaic.curves.names import EVALUATION_TAGS, LENGTH, RETURN
from mosaic.statistics.episodes import summarise_returns
from mosaic.system import atomic
from spade_bdi_rl_worker import checkpoints
from spade_bdi_rl_worker.errors import CheckpointError
from spade_bdi_rl_worker.process import SpadeProcess
from spade_bdi_rl_worker.settings import Settings
from spade_bdi_rl_worker.worlds import World

SUMMARY_FILE = "eval_summary.json"
# Evaluation episodes have numbers, and so seeds, that no training episode has.
FIRST_EPISODE = 1_000_000_000


def evaluate(process: SpadeProcess, settings: Settings) -> None:
    """Play the policy, write `eval_summary.json`, report the result."""
    path = checkpoints.find_policy(settings.policy_path)
    policy = checkpoints.read_policy(path)
    checkpoints.check_fits(policy, path, env_id=settings.env_id)
    frames = settings.frames and process.telemetry is not None
    kwargs = settings.env_kwargs or policy["env_kwargs"]
    each = settings.eval_each_seed
    # MiniGrid has one layout a seed, and the policy knows only the one it was trained on.
    seed = policy["seed"] if policy["numbering"] and not each else settings.seed
    limit = settings.eval_max_steps or settings.max_steps
    world = World(settings.env_id, seed, limit, kwargs, frames, each)
    try:
        if world.actions != policy["actions"]:
            raise CheckpointError(f"{path} was made for {policy['actions']} actions")
        world.recall(policy["numbering"])
        results = _play(process, settings, world, policy["table"])
    finally:
        world.close()
    if not results:
        return
    returns = [total for total, _, _ in results]
    summary = {
        "env_id": settings.env_id,
        "policy": path.name,
        "episodes": len(results),
        **summarise_returns(returns, settings.seed),
        "success_rate": sum(won for _, _, won in results) / len(results),
        "mean_length": statistics.fmean(length for _, length, _ in results),
    }
    atomic.write_json(process.run_dir / SUMMARY_FILE, summary)
    process.summary = summary


def _play(
    process: SpadeProcess, settings: Settings, world: World, table: list[list[float]]
) -> list[tuple[float, int, bool]]:
    results: list[tuple[float, int, bool]] = []
    first = 0 if settings.eval_each_seed else FIRST_EPISODE
    for number in range(settings.eval_episodes):
        if not process.safe_point():
            break
        results.append(_episode(process, world, table, number, first + number))
        done = len(results)
        process.emit.metrics(
            done,
            settings.eval_episodes,
            {
                # The result so far is what the table shows; single episodes have their own curve.
                RETURN: statistics.fmean(total for total, _, _ in results),
                LENGTH: statistics.fmean(length for _, length, _ in results),
                EVALUATION_TAGS[RETURN]: results[-1][0],
                EVALUATION_TAGS[LENGTH]: results[-1][1],
                "success_rate": sum(won for _, _, won in results) / done,
            },
        )
    return results


def _episode(
    process: SpadeProcess, world: World, table: list[list[float]], number: int, counted: int
) -> tuple[float, int, bool]:
    state = world.reset(counted)
    total, length, ended = 0.0, 0, False
    while not ended:
        row = table[state] if state < len(table) else [0.0]
        move = world.step(row.index(max(row)))
        process.tell_step(number, length, move, world.picture())
        total += move.reward
        length += 1
        state, ended = move.state, move.ended
    won = world.won(move)
    process.tell_episode(number, length, total, won, world.seed_of(counted))
    return total, length, won
