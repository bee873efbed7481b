"""Requests to a model server: one dialect, bounded replies, retries within limits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import httpx

from llm_worker.errors import ModelError
from llm_worker.play.actions import Json
from llm_worker.play.replies import (
    LARGEST_REPLY,
    Failure,
    Reply,
    next_wait,
    read_failure,
    read_reply,
)

HIDDEN = "***"


@dataclass(frozen=True)
class Patience:
    """How long and how often a request is tried."""

    timeout_s: float
    retries: int
    limit_s: float


@dataclass(frozen=True)
class Answered:
    """A reply and what it took to get it."""

    reply: Reply
    attempts: int


class StoppedError(Exception):
    """The run is asked to stop while a request fails: no failure of the server's."""


class ChatClient:
    """Talks to one server.

    Args:
        where: Gives the server's URL up to `/v1` and its key before each attempt: an embedded
            server that was restarted has another port.
        patience: When to give up.
        proxy: An HTTP proxy, or nothing; the environment's proxies are not used.
        keep_waiting: Asked while waiting; False ends the waiting, because the run ends.
    """

    def __init__(
        self,
        where: Callable[[], tuple[str, str]],
        patience: Patience,
        proxy: str = "",
        keep_waiting: Callable[[], bool] = lambda: True,
    ) -> None:
        self._where = where
        self._patience = patience
        self._keep_waiting = keep_waiting
        self._chance = random.Random()
        # `trust_env=False`: a proxy or a .netrc of the user must not get the key by accident.
        self._http = httpx.Client(
            timeout=httpx.Timeout(patience.timeout_s), proxy=proxy or None, trust_env=False
        )

    def ask(self, body: Json) -> Answered:
        """The reply to a request.

        Raises:
            ModelError: The server refuses it, or all attempts failed.
            StoppedError: The run is asked to stop before there is a reply.
        """
        deadline = time.monotonic() + self._patience.limit_s
        attempt = 0
        while True:
            outcome = self._attempt(body)
            attempt += 1
            if isinstance(outcome, Reply):
                return Answered(outcome, attempt)
            if not self._keep_waiting():
                raise StoppedError
            if not outcome.temporary:
                raise ModelError(outcome.reason, outcome.hint)
            wait = next_wait(attempt - 1, outcome.wait_s, self._chance)
            tries_left = attempt <= self._patience.retries
            if not tries_left or time.monotonic() + wait > deadline:
                raise ModelError(
                    f"no usable reply after {attempt} attempts; the last one: {outcome.reason}",
                    "everything is kept; continue with: mosaic llm resume RUN",
                )
            self._wait(wait)

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    def _attempt(self, body: Json) -> Reply | Failure:
        try:
            base, key = self._where()
        except ModelError as error:
            return Failure(str(error), temporary=False, hint=error.hint)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            outcome = self._post(f"{base}/chat/completions", headers, body)
        except httpx.TimeoutException:
            seconds = f"{self._patience.timeout_s:g} s"
            return Failure(f"the server at {base} did not answer within {seconds}", True)
        except httpx.InvalidURL as error:
            return Failure(f"{base} is no address: {error}", temporary=False)
        except httpx.HTTPError as error:
            outcome = Failure(f"the server at {base} cannot be reached: {error}", temporary=True)
        if isinstance(outcome, Failure) and key:
            # Some servers repeat a refused key in their complaint.
            return Failure(
                outcome.reason.replace(key, HIDDEN), outcome.temporary, outcome.hint, outcome.wait_s
            )
        return outcome

    def _post(self, url: str, headers: dict[str, str], body: Json) -> Reply | Failure:
        # httpx limits each wait for bytes; a server that sends one byte a second would never end.
        deadline = time.monotonic() + self._patience.timeout_s
        with self._http.stream("POST", url, json=body, headers=headers) as response:
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > LARGEST_REPLY:
                    return Failure(f"the server's reply is over {LARGEST_REPLY} bytes", True)
                if time.monotonic() > deadline:
                    return Failure("the server's reply did not end in time", True)
        if response.status_code != httpx.codes.OK:
            retry_after = response.headers.get("retry-after", "")
            return read_failure(response.status_code, bytes(content), retry_after)
        return read_reply(bytes(content))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not self._keep_waiting():
                raise StoppedError
            # In short pieces: a run that is cancelled must not wait for a failing server.
            time.sleep(min(0.1, left))
