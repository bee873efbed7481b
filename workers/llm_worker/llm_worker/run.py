"""One run put together: model, world, records, game, and where it is reported."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from llm_worker.embedded.server import EmbeddedServer
from llm_worker.errors import ModelError, RecordError
from llm_worker.play.actions import Json
from llm_worker.play.answers import Way
from llm_worker.play.budget import Spent
from llm_worker.play.client import ChatClient, Patience, StoppedError
from llm_worker.play.game import EpisodeResult, Game, first_request, sampling_of
from llm_worker.play.models import EMBEDDED, SCRIPTED, Model, find_model
from llm_worker.play.probe import probe
from llm_worker.play.prompts import STEP, SYSTEM, Prompts, request_hash
from llm_worker.play.records import FOLDER, RunRecords, StepRecord, continued_run
from llm_worker.play.replies import Reply
from llm_worker.play.summary import summarise
from llm_worker.play.world import World
from llm_worker.process import LlmProcess
from llm_worker.settings import Settings
from mosaic.curves.names import LAST_EPISODES, SPEED
from mosaic.errors import SecretError
from mosaic.telemetry.records import Kind
from mosaic.workers import resolve_secret

# The mark that a run can be continued is written at most this often; the records themselves are
# complete after each step.
CHECKPOINT_S = 5.0


class Reporter:
    """Tells the daemon about each step and each episode."""

    def __init__(self, process: LlmProcess, records: RunRecords, settings: Settings) -> None:
        self._process = process
        self._records = records
        self._settings = settings
        self._seed = settings.seed
        self._steps = 0
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._wins: list[bool] = []
        self._tokens = 0
        self._cost: float | None = 0.0
        self._began = time.monotonic()
        self._marked = float("-inf")
        self._last: tuple[int, int] = (0, 0)
        # After a kill the same run takes its recorded steps again: the daemon has these already.
        told = process.telemetry
        self._told_steps = told.known(Kind.STEPS) if told is not None else 0
        self._told_episodes = told.known(Kind.EPISODES) if told is not None else 0

    def goes_on(self) -> bool:
        """Whether to take another step; waits while paused."""
        return self._process.safe_point(self.save)

    def stepped(self, record: StepRecord, picture: bytes) -> None:
        """A step was taken, now or before the run was continued."""
        self._steps += 1
        self._last = (record.episode, record.step)
        self._tokens += record.tokens_in + record.tokens_out
        known = self._cost is not None and record.cost is not None
        self._cost = (self._cost or 0.0) + (record.cost or 0.0) if known else None
        if self._steps <= self._told_steps:
            return
        if self._process.telemetry is not None:
            self._process.telemetry.step(
                episode=record.episode,
                step=record.step,
                observation=record.text,
                action=record.action,
                reward=record.reward,
                terminated=record.terminated,
                truncated=record.truncated,
                info=_thoughts(record),
                frame=picture,
            )
        if time.monotonic() - self._marked > CHECKPOINT_S:
            self.save()
        self._metrics(record.episode)

    def ended(self, episode: EpisodeResult) -> None:
        """An episode is over."""
        told = episode.episode < self._told_episodes
        if self._process.telemetry is not None and not told:
            self._process.telemetry.episode(
                episode=episode.episode,
                length=episode.steps,
                total_reward=episode.total,
                outcome=episode.outcome,
                seed=episode.seed,
                info={"tokens": episode.tokens, "cost": episode.cost},
            )
        if episode.outcome in ("budget", "stopped"):
            return
        self._returns = [*self._returns, episode.total][-LAST_EPISODES:]
        self._lengths = [*self._lengths, episode.steps][-LAST_EPISODES:]
        if episode.success is not None:
            self._wins = [*self._wins, episode.success][-LAST_EPISODES:]
        if not told:
            self._metrics(episode.episode + 1)

    def save(self) -> None:
        """Mark that the run can be continued from here."""
        self._marked = time.monotonic()
        path, digest = self._records.write_checkpoint(*self._last)
        self._process.emit.checkpoint_saved(path, self._steps, digest, "full")

    def _metrics(self, episodes: int) -> None:
        elapsed = max(1e-9, time.monotonic() - self._began)
        values: dict[str, float] = {
            SPEED: self._steps / elapsed,
            "llm/tokens": float(self._tokens),
            "steps": float(self._steps),
        }
        if self._cost is not None:
            values["llm/cost"] = self._cost
        if self._returns:
            values["episodic_return"] = sum(self._returns) / len(self._returns)
            values["episodic_length"] = sum(self._lengths) / len(self._lengths)
        if self._wins:
            values["success"] = sum(self._wins) / len(self._wins)
        self._process.emit.metrics(episodes, self._settings.episodes, values)


def play(process: LlmProcess, settings: Settings) -> None:
    """Play a whole run.

    Raises:
        LlmError: The model, the environment or the records do not allow it.
    """
    continued = continued_run(settings.checkpoint_path) if settings.checkpoint_path else None
    records = RunRecords(process.run_dir, continued)
    world = _world(settings)
    model = find_model(settings.model, settings.price_in, settings.price_out)
    log = process.run_dir / FOLDER / "server.log"
    reporter = Reporter(process, records, settings)
    if process.restarts:
        process.emit.note("note", {"text": _started_again(process.restarts, len(records.done))})
    else:
        # Before the first request: what is paid for from here on can be continued.
        reporter.save()
    try:
        with _client(settings, model, log, lambda: not process.stopping) as client:
            try:
                way, spent = _way(settings, model, client, records)
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
                _prompts(settings),
                spent,
            )
            records.write_prompt("system.txt", game.prompts.system)
            records.write_prompt("step.txt", game.prompts.step)
            request = first_request(settings, model, way, world, game.prompts)
            records.write_prompt("first-request.json", request)
            results = game.play()
        summary = summarise(results, game.spent, game.budget_reason)
        records.write_summary({"model": model.identity, "answers": way, **summary})
        process.summary = {k: v for k, v in summary.items() if k != "per_episode"}
    finally:
        records.close()
        world.close()


def _started_again(restarts: int, steps: int) -> str:
    return f"the worker was killed and started again ({restarts}); {steps} steps are taken again"


def ask_again(settings: Settings, recorded: list[StepRecord], episode: int, step: int) -> Json:
    """What the model of `settings` does in a recorded moment, beside what was done in it.

    Raises:
        RecordError: There is no such step, or the environment does not repeat it.
        ModelError: The model does not answer.
    """
    steps = [record for record in recorded if record.episode == episode]
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
            _client(settings, model, None, lambda: True) as client,
        ):
            way, spent = _way(settings, model, client, records)
            prompts = _prompts(settings)
            game = Game(settings, model, way, world, records, client.ask, _Nobody(), prompts, spent)
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
    world = _world(settings)
    model = find_model(settings.model, settings.price_in, settings.price_out)
    try:
        with _client(settings, model, None, lambda: True) as client:
            way: Way = "schema"
            found = "the embedded server obeys JSON schemas"
            if model.preset in SCRIPTED:
                found = "plays without a model"
            elif model.preset != EMBEDDED:
                asked = probe(lambda body: client.ask(body).reply, sampling_of(settings, model))
                way = asked.way if settings.answer == "auto" else settings.answer
                found = f"the server answers; used here: {way}; refused: {asked.refused or 'none'}"
            request = first_request(settings, model, way, world, _prompts(settings))
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


def _prompts(settings: Settings) -> Prompts:
    return Prompts(settings.system_prompt or SYSTEM, settings.step_prompt or STEP)


@contextmanager
def _client(
    settings: Settings, model: Model, log: Path | None, keep_waiting: Callable[[], bool]
) -> Iterator[ChatClient]:
    patience = Patience(settings.timeout_s, settings.retries, settings.retry_limit_s)
    if model.preset == EMBEDDED:
        server = EmbeddedServer(model.file, log=log)
        try:
            with ChatClient(server.where, patience, "", keep_waiting) as client:
                yield client
        finally:
            server.close()
        return
    key = _key(settings, model)
    with ChatClient(
        lambda: (model.base_url, key), patience, settings.proxy, keep_waiting
    ) as client:
        yield client


def _key(settings: Settings, model: Model) -> str:
    try:
        key = resolve_secret(settings.api_key)
    except SecretError as error:
        raise ModelError(str(error), "give api_key again") from error
    return key or os.environ.get(model.key_variable, "") if model.key_variable else key


def _way(
    settings: Settings, model: Model, client: ChatClient, records: RunRecords
) -> tuple[Way, Spent]:
    """How the model is made to answer; asked once in the life of a run."""
    spent = Spent()
    if settings.answer != "auto":
        return settings.answer, spent
    if model.preset in (EMBEDDED, *SCRIPTED):
        records.write_probe({"way": "schema", "refused": {}})
        return "schema", spent

    def ask(body: Json) -> Reply:
        nonlocal spent
        request = request_hash(model.identity, body)
        reply = records.replies.get(request)
        if reply is None:
            reply = client.ask(body).reply
            records.add_reply(request, reply)
        spent = spent.plus(reply.usage, model.price)
        return reply

    # A continued run asks again, and finds the replies that were paid for.
    found = probe(ask, sampling_of(settings, model))
    records.write_probe(found.document())
    return found.way, spent


def _said(record: StepRecord) -> str:
    if record.probability is None:
        return record.reasoning
    return f"{record.reasoning} ({record.probability:.0%} sure)"


def _thoughts(record: StepRecord) -> Json:
    """What a viewer shows beside the board, as any agent with a mind tells it.

    The decision is the action, the intention the reason for it, the beliefs what was read.
    """
    fields = asdict(record)
    names = ("reasoning", "valid", "reply", "tokens_in", "tokens_out", "tokens_cached", "cost")
    return {
        "decision": record.action_name if record.valid else f"{record.action_name} (default)",
        "intention": _said(record),
        "beliefs": list(record.text.splitlines()),
        "llm": {name: fields[name] for name in names},
    }
