"""Where examples for imitation come from: the bot, a model's won episodes, a person's game."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_worker.errors import RecordError
from llm_worker.model.examples import Example, examples, reply_text
from llm_worker.model.make import EXAMPLES_SEED
from llm_worker.model.recorded import from_recorded
from llm_worker.play.records import FOLDER, STEPS
from llm_worker.play.world import World
from mosaic.errors import NotRecordedError
from mosaic.telemetry.replay import read_games


def gather(bot_episodes: int, recorded: Path | None, env_id: str) -> list[Example]:
    """All examples, each once.

    Raises:
        RecordError: The run has recorded nothing that could be imitated.
    """
    found = examples(bot_episodes, EXAMPLES_SEED) if bot_episodes else iter(())
    more = _of_run(recorded, env_id) if recorded is not None else []
    return list(dict.fromkeys([*found, *more]))


def _of_run(run_dir: Path, env_id: str) -> list[Example]:
    steps = run_dir / FOLDER / STEPS
    if steps.exists():
        return from_recorded(steps)
    world = World(env_id)
    try:
        # The recordings hold what the environment showed, not what a model would have read.
        found = [
            one for seed, taken in read_games(run_dir) for one in told_again(world, seed, taken)
        ]
    except NotRecordedError as error:
        hint = "name a run of the llm worker or a person's game"
        raise RecordError(f"recorded: {error}", hint) from error
    finally:
        world.close()
    if not found:
        raise RecordError(f"{run_dir.name}: no episode of {env_id} was won in this game")
    return found


def told_again(world: World, seed: int, taken: Sequence[object]) -> list[Example]:
    """A played episode in words, by taking its actions again; nothing when it was not won."""
    world.begin(seed)
    found = []
    for action in taken:
        if not isinstance(action, int):
            return []
        # A person gives no reasons; the place of the goal is in the text already.
        found.append(Example(world.text(), reply_text("", world.actions.say(action))))
        outcome = world.act(action)
        if outcome.ended:
            return found if outcome.success else []
    return []
