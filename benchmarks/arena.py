"""The arena table of the guide: agents of all kinds on the same seeds of three BabyAI levels.

`python -m benchmarks.arena` lets random play, the bot and the shipped model play, writes
results/arena.json and prints the table. It uses the daemon of MOSAIC_HOME, which keeps the runs:
what was played is not played again, and what was interrupted continues in the middle of its
episode. So a slow agent can be played in pieces:

    python -m benchmarks.arena --agents random,llm:smollm2
    python -m benchmarks.arena --agents random --policy BabyAI-GoToObj-v0=RUN
    python -m benchmarks.arena --agents random,human

`human` is what was played at the keys (`mosaic play LEVEL --seed 1001`, or the window) under that
home, the first time that each seed was played; scripts of keys do not count. Rows of agents that
are not asked for stay as they are.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from mosaic.arena.match import HUMAN, MODEL, Match, check_agents
from mosaic.arena.table import Played, Row, compare
from mosaic.client import TrainerClient
from mosaic.client.arena import collect, so_far, start
from mosaic.config import build
from mosaic.config.model import Parameters
from mosaic.records import RunRecord
from mosaic.workers.algorithms import worker_for

LEVELS = ("BabyAI-GoToObj-v0", "BabyAI-GoToRedBall-v0", "BabyAI-GoToLocal-v0")
FIRST_SEED = 1001
RESULTS = Path(__file__).parent / "results" / "arena.json"
# Earlier steps in the prompt make SmolLM2 several times slower and no better.
OWN: Mapping[str, Parameters] = {"llm:smollm2": {"history": 0}}
_HEAD = (
    "| level | agent | episodes | success | 95 % | return | 95 % | lead over random, paired "
    "| 95 % | tokens a solved episode |"
)


def main() -> None:
    """Play what is missing, write the results and print the table."""
    options = _options()
    agents = check_agents([name.strip() for name in options.agents.split(",")] + ["random"])
    policies = dict(one.split("=", 1) for one in options.policy)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with TrainerClient.connect(start=True) as trainer:
        for level in options.levels.split(","):
            match = Match(level, FIRST_SEED, options.seeds)
            runs = {name: play(trainer, name, match) for name in agents if name != HUMAN}
            played = [_played(trainer, name, run, match) for name, run in runs.items()]
            if HUMAN in agents:
                played += _people(trainer, match)
            if level in policies:
                played.append(_policy(trainer, policies[level], match))
            kept[level] = _merged(kept.get(level, {}), match, compare(level, played))
            # After each level: what comes later may take hours.
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print("\n".join(markdown(kept)))


def play(trainer: TrainerClient, agent: str, match: Match) -> RunRecord:
    """The run in which an agent plays the seeds: the one there is, continued, or a new one."""
    worker = worker_for("arena")
    name = f"arena table: {agent}"
    page = trainer.list_runs(worker=worker.worker_type, env_id=match.env_id, page_size=500)
    for run in page.runs:
        before = build.read_config(trainer.config(run.run_id))
        planned = before.worker.parameters.get("episodes")
        if (run.run_name, run.seed, planned) != (name, match.seed, match.episodes):
            continue
        if run.live or run.completed:
            return run
        if run.newest_checkpoint("full") is not None:
            return trainer.submit(build.resume(before, run), parent_run_id=run.run_id)
    config = build.train(
        build.Worker(worker.worker_type, worker.module),
        worker.worker_type,
        env_id=match.env_id,
        seed=match.seed,
        parameters={
            "model": agent.removeprefix(MODEL),
            "episodes": match.episodes,
            **OWN.get(agent, {}),
        },
        wishes=build.Wishes(name=name, tags=("arena",)),
    )
    return trainer.submit(config)


def _played(trainer: TrainerClient, agent: str, run: RunRecord, match: Match) -> Played:
    return collect(trainer, agent, trainer.wait(run.run_id), match)


def _people(trainer: TrainerClient, match: Match) -> list[Played]:
    found = so_far(trainer, HUMAN, "", match)
    if not found.episodes:
        print(f"{match.env_id}: no person has played these seeds; no row")
        return []
    return [found]


def _policy(trainer: TrainerClient, run_id: str, match: Match) -> Played:
    agent = f"run:{run_id}"
    found = _played(trainer, agent, start(trainer, agent, match), match)
    name = trainer.get(run_id).algo or agent
    return Played(name, found.run_id, found.episodes, found.tokens, found.cost, found.seconds)


def _merged(before: Mapping[str, object], match: Match, rows: Sequence[Row]) -> dict[str, object]:
    """The level's table with the rows that are new in place of those they replace."""
    listed = before.get("agents")
    known = listed if isinstance(listed, list) else []
    made = {row.agent: _document(row) for row in rows}
    same = [made.pop(one["agent"], one) for one in known]
    return {
        "env_id": match.env_id,
        "seed": match.seed,
        "seeds": match.episodes,
        "agents": [*same, *made.values()],
    }


def _document(row: Row) -> dict[str, object]:
    # A named tuple would become a list of numbers without names.
    return {**asdict(row), "lead": row.lead._asdict() if row.lead else None}


def markdown(levels: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The table as the guide has it."""
    lines = [_HEAD, "|" + "---|" * (_HEAD.count("|") - 1)]
    for level, found in levels.items():
        listed = found["agents"]
        assert isinstance(listed, list)
        for place, row in enumerate(listed):
            lines.append(_line(f"`{level}`" if place == 0 else "", row))
    return lines


def _line(level: str, row: Mapping[str, object]) -> str:
    success, lead, tokens = row["success"], row["lead"], row["tokens_per_solved"]
    cells = [level, row["agent"], row["episodes"]]
    cells += [
        "" if success is None else f"{100 * success:.0f} %",
        _ends(row["success_interval"], 100, 0),
    ]
    cells += [f"{row['mean_return']:.2f}", _ends(row["return_interval"], 1, 2)]
    if isinstance(lead, Mapping):
        cells += [f"{lead['mean']:+.2f}", _ends(lead["interval"], 1, 2, "+")]
    else:
        cells += ["", ""]
    cells.append(f"{tokens:,.0f}" if tokens else "")
    line = f"| {' | '.join(str(cell) for cell in cells)} |"
    # A true minus, and one space in an empty cell.
    return line.replace("-0.", "−0.").replace("|  ", "| ")


def _ends(interval: object, scale: float, digits: int, sign: str = "") -> str:
    if not isinstance(interval, Sequence):
        return ""
    low, high = (f"{scale * float(end):{sign}.{digits}f}" for end in interval)
    return f"{low} to {high}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--agents", default="random,bot,llm:embedded", help="separated by commas")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument(
        "--policy", action="append", default=[], metavar="LEVEL=RUN", help="a trained policy"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
