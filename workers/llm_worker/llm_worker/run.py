"""One run put together: model, world, records, game, and where it is reported."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from llm_worker.asking import client_for, prompts_of, way_of
from llm_worker.errors import RecordError
from llm_worker.play.actions import Json
from llm_worker.play.answers import Way
from llm_worker.play.client import StoppedError
from llm_worker.play.game import EpisodeResult, Game, first_request, limits_of, sampling_of
from llm_worker.play.models import EMBEDDED, SCRIPTED, find_model
from llm_worker.play.probe import probe
from llm_worker.play.records import FOLDER, RunRecords, StepRecord, continued_run
from llm_worker.play.summary import summarise
from llm_worker.play.thinking import Purse
from llm_worker.play.world import World
from llm_worker.process import LlmProcess
from llm_worker.reporting import Reporter
from llm_worker.settings import Settings
from llm_worker.table.names import TABLE_GAMES


def play(process: LlmProcess, settings: Settings) -> None:
    """Play a whole run.

    Raises:
        LlmError: The model, the environment or the records do not allow it.
    """
    if settings.env_id in TABLE_GAMES:
        # PettingZoo is needed for nothing else.
        from llm_worker.table.run import play_table

        play_table(process, settings)
        return
    continued = continued_run(settings.checkpoint_path) if settings.checkpoint_path else None
    records = RunRecords(process.run_dir, continued)
    world = _world(settings)
    model = find_model(settings.model, settings.price_in, settings.price_out)
    log = process.run_dir / FOLDER / "server.log"
    reporter = Reporter(process, records, settings)
    reporter.begin()
    try:
        with client_for(settings, model, log, lambda: not process.stopping) as client:
            try:
                way, spent = way_of(settings, model, client, records)
            except StoppedError:
                return
            game = Game(
                settings,
                model,
                way,
                world,
                records,
                client.ask,
                reporter,
                prompts_of(settings),
                Purse(limits_of(settings), spent),
            )
            records.write_prompt("system.txt", game.prompts.system)
            records.write_prompt("step.txt", game.prompts.step)
            request = first_request(settings, model, way, world, game.prompts)
            records.write_prompt("first-request.json", request)
            results = game.play()
        summary = summarise(results, game.purse.spent, game.budget_reason)
        records.write_summary({"model": model.identity, "answers": way, **summary})
        process.summary = {k: v for k, v in summary.items() if k != "per_episode"}
    finally:
        records.close()
        world.close()


def ask_again(settings: Settings, recorded: list[StepRecord], episode: int, step: int) -> Json:
    """What the model of `settings` does in a recorded moment, beside what was done in it.

    Raises:
        RecordError: There is no such step, or the environment does not repeat it.
        ModelError: The model does not answer.
    """
    steps = [record for record in recorded if record.episode == episode]
    if settings.env_id in TABLE_GAMES:
        raise RecordError(f"{settings.env_id} has several players; ask again in games for one")
    if step >= len(steps):
        raise RecordError(
            f"episode {episode} has {len(steps)} recorded steps, none has number {step}"
        )
    world = _world(settings)
    model = find_model(settings.model, settings.price_in, settings.price_out)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="mosaic-ask-") as folder,
            # Not the run's own replies: the question is what is answered now.
            closing(RunRecords(Path(folder))) as records,
            client_for(settings, model, None, lambda: True) as client,
        ):
            way, spent = way_of(settings, model, client, records)
            prompts = prompts_of(settings)
            purse = Purse(limits_of(settings), spent)
            game = Game(settings, model, way, world, records, client.ask, _Nobody(), prompts, purse)
            thought = game.ask_again(episode, steps[:step])
        then = steps[step]
        return {
            "episode": episode,
            "step": step,
            "text": then.text,
            "then": {"action": then.action_name, "reasoning": then.reasoning},
            "now": {
                "model": model.identity,
                "action": world.actions.say(thought.decision.action),
                "reasoning": thought.decision.reasoning,
                "valid": thought.valid,
                "tokens": thought.usage.tokens_in + thought.usage.tokens_out,
                "cost": thought.cost,
            },
        }
    finally:
        world.close()


class _Nobody:
    """Watches a game that is not played on."""

    def stepped(self, record: StepRecord, picture: bytes) -> None:
        """No step is taken."""

    def ended(self, episode: EpisodeResult) -> None:
        """No episode ends."""

    def goes_on(self) -> bool:
        """Nothing stops it."""
        return True


def preview(settings: Settings) -> str:
    """What a run would do: what the server honours, and the exact first request."""
    if settings.env_id in TABLE_GAMES:
        from llm_worker.table.run import preview_table

        return preview_table(settings)
    world = _world(settings)
    model = find_model(settings.model, settings.price_in, settings.price_out)
    try:
        with client_for(settings, model, None, lambda: True) as client:
            way: Way = "schema"
            found = "the embedded server obeys JSON schemas"
            if model.preset in SCRIPTED:
                found = "plays without a model"
            elif model.preset != EMBEDDED:
                asked = probe(lambda body: client.ask(body).reply, sampling_of(settings, model))
                way = asked.way if settings.answer == "auto" else settings.answer
                found = f"the server answers; used here: {way}; refused: {asked.refused or 'none'}"
            request = first_request(settings, model, way, world, prompts_of(settings))
            return f"{model.identity}: {found}\nfirst request:\n{request}"
    finally:
        world.close()


def _world(settings: Settings) -> World:
    return World(
        settings.env_id,
        settings.max_steps,
        settings.env_kwargs,
        settings.frames or settings.pictures,
        settings.default_action,
    )
