"""How a run reaches its model: a client for the server, and what the server honours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from llm_worker.embedded.server import EmbeddedServer
from llm_worker.errors import ModelError
from llm_worker.play.actions import Json
from llm_worker.play.answers import Way
from llm_worker.play.budget import Spent
from llm_worker.play.client import ChatClient, Patience
from llm_worker.play.game import sampling_of
from llm_worker.play.models import EMBEDDED, SCRIPTED, Model
from llm_worker.play.probe import probe
from llm_worker.play.prompts import STEP, SYSTEM, Prompts, request_hash
from llm_worker.play.records import RunRecords
from llm_worker.play.replies import Reply
from llm_worker.settings import Settings
from mosaic.errors import SecretError
from mosaic.workers import resolve_secret


def prompts_of(settings: Settings) -> Prompts:
    """The templates of a run."""
    return Prompts(settings.system_prompt or SYSTEM, settings.step_prompt or STEP)


@contextmanager
def client_for(
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


def way_of(
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
