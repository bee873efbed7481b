"""The SPADE agents: a learner whose mind decides how to act, and a coach that advises it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import agentspeak
from pyjabber.plugins.xep_0363 import upload_server
from spade.agent import AuthenticationFailure, DisconnectedException
from spade.behaviour import CyclicBehaviour, OneShotBehaviour
from spade.container import Container
from spade.message import Message
from spade.template import Template
from spade_bdi.bdi import BDIAgent
from spade_bdi.bdi_behaviour import BDIBehaviour

from spade_bdi_rl_worker.errors import XmppError
from spade_bdi_rl_worker.mind import Mind

# A slow machine needs seconds for TLS and registration; a wrong address should not cost a minute.
CONNECT_S = 15.0

# spade imports pyjabber, which makes a folder for uploads as it is imported. We upload nothing.
shutil.rmtree(upload_server.TEMP_DIR, ignore_errors=True)


class PatientBDIBehaviour(BDIBehaviour):
    """A BDI cycle that sleeps while there is nothing to reason about.

    The original asks its mailbox without waiting, over and over, and burns a third of a core for
    an agent that does nothing. This one waits for a message, for the deadline of a waiting
    intention, or to be woken.

    Attributes:
        cycles: How often it has reasoned.
        heard: How many messages it has taken.
        ignored: How many it has not, because of who sent them.
        asleep: Whether only a message or `wake` makes it reason again.
    """

    def __init__(self, replaced: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._replaced = replaced
        self.cycles = 0
        self.heard = 0
        self.ignored = 0
        self.asleep = False

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; waits for one unless the mind has work to do."""
        if timeout != 0 or self._has_work():
            message = await super().receive(timeout)
        else:
            message = await self._wait_for_message()
        if message is None:
            return None
        if not self.agent.hears(str(message.sender)):
            self.ignored += 1
            return None
        self._replace_older(message)
        return message

    async def run(self) -> None:
        """One cycle of the BDI interpreter."""
        self.cycles += 1
        await super().run()

    def wake(self) -> None:
        """End the waiting: something was added to the mind from outside."""
        self.queue.put_nowait(None)

    def kill(self, exit_code: object = None) -> None:
        """Stop the behaviour, also when it is asleep."""
        super().kill(exit_code)
        if self.queue is not None:
            self.wake()

    def _has_work(self) -> bool:
        ready = (stack[-1].waiter is None for stack in self.agent.bdi_agent.intentions if stack)
        return bool(self.agent.bdi_intention_buffer) or any(ready)

    async def _wait_for_message(self) -> Message | None:
        deadline = self.agent.bdi_agent.shortest_deadline()
        # A little more than asked: woken a moment early it would find nothing to do yet.
        patience = None if deadline is None else max(0.0, deadline - time.time()) + 0.001
        self.asleep = deadline is None
        try:
            return await asyncio.wait_for(self.queue.get(), patience)
        except TimeoutError:
            return None
        finally:
            self.asleep = False

    def _replace_older(self, message: Message) -> None:
        self.heard += 1
        functor = (message.body or "").partition("(")[0].strip()
        if message.get_metadata("ilf_type") == "tell" and functor in self._replaced:
            for (name, _arity), beliefs in self.agent.bdi_agent.beliefs.items():
                if name == functor:
                    beliefs.clear()


class LinkedAgent(BDIAgent):
    """A BDI agent that knows its server's address and notices when the link breaks."""

    replaced: tuple[str, ...] = ()
    only_from: str = ""

    def __init__(self, jid: str, password: str, plan: Path, host: str, port: int) -> None:
        # Before `super().__init__`, which calls `add_behaviour` and `add_custom_actions` of ours.
        self._xmpp_host = self._address = host
        self.lost = asyncio.Event()
        super().__init__(jid, password, str(plan), port=port)
        # Agents of one process would bypass the server; ours talk over XMPP like any others.
        Container().unregister(str(self.jid))

    def add_behaviour(self, behaviour: CyclicBehaviour, template: Template | None = None) -> None:
        """Use the patient cycle in place of the restless one."""
        if type(behaviour) is BDIBehaviour:
            behaviour = PatientBDIBehaviour(self.replaced)
        super().add_behaviour(behaviour, template)

    async def connect(self, register: bool) -> None:
        """Go online.

        Raises:
            XmppError: The server refuses the password or cannot be reached.
        """
        where = f"{self._xmpp_host}:{self.xmpp_port}"
        try:
            self._address = await _find_server(self._xmpp_host, self.xmpp_port)
            await asyncio.wait_for(self.start(auto_register=register), CONNECT_S)
        except AuthenticationFailure as error:
            raise XmppError(
                f"the XMPP server at {where} refused {self.jid.bare}: wrong JID or password",
                "check jid and password; the account must exist, or the server must allow "
                "registration with a JID that is still free",
            ) from error
        except (DisconnectedException, OSError, TimeoutError) as error:
            raise XmppError(
                f"no XMPP server answers at {where}",
                "start it, or correct xmpp_host and xmpp_port, or leave jid out to use the "
                "embedded server",
            ) from error
        # Only now: attempts that fail while connecting are reported above.
        self.client.add_event_handler("disconnected", lambda _: self.lost.set())

    async def reconnect(self, within_s: float) -> bool:
        """Try to come back online; False when the server stays away."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self.client.connected_event.clear()
            self.client.connect(host=self._address, port=self.xmpp_port)
            try:
                # In attempts of two seconds: one that is left alone may outlast the deadline.
                await asyncio.wait_for(
                    self.client.connected_event.wait(),
                    max(0.1, min(2.0, deadline - time.monotonic())),
                )
            except TimeoutError:
                self.client.cancel_connection_attempt()
                continue
            self.lost.clear()
            return True
        return False

    async def _async_connect(self) -> None:
        # spade resolves the JID's domain; the server may be at another host (`xmpp_host`).
        connect = self.client.connect
        self.client.connect = lambda host, port: connect(host=self._address, port=port)
        await super()._async_connect()
        self.client.connect = connect

    def hears(self, sender: str) -> bool:
        """Whether a message counts: on the embedded server only the coach's do.

        Any program of this machine can log in there; on a server of the user's own, who may talk
        to the learner is the user's decision.
        """
        return not self.only_from or sender.partition("/")[0] == self.only_from

    async def say(self, to: str, performative: str, content: str) -> None:
        """Send an AgentSpeak message to another agent over XMPP."""
        metadata = {"performative": "BDI", "ilf_type": performative}
        await self.bdi.send(Message(to=to, body=content, metadata=metadata))


async def _find_server(host: str, port: int) -> str:
    """The address of a server that answers.

    Asked before slixmpp, which would keep trying a dead address without saying so.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET)
    address = str(found[0][4][0])
    _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_S)
    writer.close()
    await writer.wait_closed()
    return address


class CoachAgent(LinkedAgent):
    """Hears reports and answers with advice, as its own plan says."""

    replaced = ("report",)


class LearnerAgent(LinkedAgent):
    """Acts in the world; its mind decides each step."""

    replaced = ("advice",)

    def __init__(
        self, jid: str, password: str, plan: Path, host: str, port: int, mind: Mind
    ) -> None:
        self.mind = mind
        super().__init__(jid, password, plan, host, port)
        mind.attach(self.bdi_agent)

    def add_custom_actions(self, actions: agentspeak.Actions) -> None:
        """Teach the plans the decisions they can take."""
        self.mind.register(actions)

    async def ask_coach(self, coach: str, report: str, patience_s: float) -> bool:
        """Report to the coach and wait for its advice; False when none came in time."""
        # Noted before asking: the answer may arrive before `say` returns.
        heard = self.bdi.heard
        await self.say(coach, "tell", report)
        deadline = time.monotonic() + patience_s
        while self.bdi.heard == heard:
            if self.lost.is_set() or time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.001)
        # One turn for the behaviour to put the advice into the mind, then the mind's own.
        await asyncio.sleep(0)
        self.mind.run()
        return True


class LearningBehaviour(OneShotBehaviour):
    """Runs the training as a behaviour of the learner; its result or error is `outcome`."""

    def __init__(self, train: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._train = train
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Train to the end."""
        try:
            await self._train()
            self.outcome.set_result(None)
        except Exception as error:
            self.outcome.set_exception(error)
