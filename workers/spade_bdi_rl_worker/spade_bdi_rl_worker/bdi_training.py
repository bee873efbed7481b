"""Training by SPADE agents: a mind decides each step, a coach advises over XMPP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from statistics import fmean
from typing import TypedDict, cast

from mosaic.curves.names import RETURN
from mosaic.errors import SecretError
from mosaic.workers import resolve_secret
from spade_bdi_rl_worker import checkpoints
from spade_bdi_rl_worker.agent import CoachAgent, LearnerAgent, LearningBehaviour
from spade_bdi_rl_worker.checkpoints import Policy
from spade_bdi_rl_worker.errors import SettingsError, XmppError
from spade_bdi_rl_worker.headless_training import schedule_of
from spade_bdi_rl_worker.learner import QLearner, QLearnerState
from spade_bdi_rl_worker.mind import Mind
from spade_bdi_rl_worker.plans import find_plan
from spade_bdi_rl_worker.process import SpadeProcess
from spade_bdi_rl_worker.recorder import Recorder, Snapshot, policy_document
from spade_bdi_rl_worker.server import EmbeddedServer
from spade_bdi_rl_worker.settings import Settings
from spade_bdi_rl_worker.worlds import Move, World

# A coach answers in milliseconds. One that needs ten seconds is not there, and is then not
# waited for again.
ADVICE_S = 10.0
# How long learning may run before the event loop gets a turn for the XMPP link.
BREATH_S = 0.05


class AgentState(TypedDict):
    """A full checkpoint of agents: their table, what they have met, what they believe."""

    env_id: str
    headless: bool
    actions: int
    learner: QLearnerState
    numbering: dict[str, int]
    beliefs: list[str]


@dataclass(frozen=True)
class Account:
    """How the two agents log in."""

    learner: str
    coach: str
    password: str
    host: str
    port: int


def account_of(settings: Settings, server: EmbeddedServer | None) -> Account:
    """The agents' accounts on the embedded or the external server."""
    if server is not None:
        learner, coach = f"learner@{server.host}", f"coach@{server.host}"
        return Account(learner, coach, server.password, server.host, server.port)
    name, _, domain = settings.jid.partition("@")
    coach = settings.coach_jid or f"{name}-coach@{domain}"
    host = settings.xmpp_host or domain
    try:
        password = resolve_secret(settings.password)
    except SecretError as error:
        raise SettingsError(str(error)) from error
    return Account(settings.jid, coach, password, host, settings.xmpp_port)


def train(process: SpadeProcess, settings: Settings) -> None:
    """Train with agents to the end, or until asked to stop."""
    # The libraries report at length what we say in one sentence ourselves.
    for name in ("spade", "slixmpp", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.run(_train(process, settings))


async def _train(process: SpadeProcess, settings: Settings) -> None:
    server = EmbeddedServer() if settings.embedded else None
    training = BdiTraining(process, settings, server)
    try:
        # In a thread: starting waits for the server's port, and the loop must stay free.
        if server is not None:
            await asyncio.to_thread(server.start)
        await training.go_online()
        behaviour = LearningBehaviour(training.run)
        training.agent.add_behaviour(behaviour)
        await behaviour.outcome
    finally:
        await training.go_offline()
        if server is not None:
            await asyncio.to_thread(server.stop)


class BdiTraining:
    """The learner, its mind, its world and its coach, for one run."""

    def __init__(
        self, process: SpadeProcess, settings: Settings, server: EmbeddedServer | None
    ) -> None:
        self._process = process
        self._settings = settings
        self._server = server
        self._world = World(
            settings.env_id,
            settings.seed,
            settings.max_steps,
            settings.env_kwargs,
            settings.frames and process.telemetry is not None,
        )
        self._learner = QLearner(
            self._world.actions, schedule_of(settings), settings.seed, settings.planned_episodes
        )
        self._mind = Mind(self._learner.random)
        self._coach: CoachAgent | None = None
        self._coach_answers = True
        self._breath = time.monotonic()
        self.agent: LearnerAgent
        self._recorder = Recorder(process, settings, self._snapshot, self._policy)

    async def go_online(self) -> None:
        """Bring the agents to the server.

        Raises:
            XmppError: The server is not there or refuses them.
        """
        account = account_of(self._settings, self._server)
        self._account = account
        where = account.password, find_plan(self._settings.plan), account.host, account.port
        self.agent = LearnerAgent(account.learner, *where, self._mind)
        # Anyone on this machine can register at the embedded server, so only the coach counts.
        if self._server is not None:
            self.agent.only_from = account.coach
        await self.agent.connect(register=True)
        if self._settings.report_every:
            plan = find_plan(self._settings.coach_plan)
            self._coach = CoachAgent(
                account.coach, account.password, plan, account.host, account.port
            )
            await self._coach.connect(register=True)

    async def go_offline(self) -> None:
        """Log the agents out and close the world."""
        for agent in (getattr(self, "agent", None), self._coach):
            if agent is not None and agent.is_alive():
                # A dead link makes logging out hang; the process ends anyway.
                with contextlib.suppress(TimeoutError, OSError):
                    await asyncio.wait_for(agent.stop(), 3)
        self._world.close()

    async def run(self) -> None:
        """All episodes, with a safe point after each."""
        self._resume()
        self._recorder.begin(self._learner.episode)
        while not self._settings.finished(self._learner.episode, self._learner.steps):
            if not await self._process.safe_point_async(self._recorder.save):
                break
            # Between episodes: a plan in the middle of one must not find its coach gone.
            await self._keep_link()
            await self._episode()
            await self._after_episode()
        self._recorder.save()
        self._process.summary = {
            "episodes": self._learner.episode,
            "steps": self._learner.steps,
            "success_rate": self._learner.success_rate,
        }

    def _resume(self) -> None:
        if self._settings.mode != "resume_training":
            return
        path = checkpoints.find_full(self._settings.checkpoint_path, self._process.run_dir)
        saved = cast(AgentState, checkpoints.read(path, "full"))
        checkpoints.check_fits(
            saved,
            path,
            env_id=self._settings.env_id,
            headless=False,
            actions=self._world.actions,
        )
        self._learner.restore(saved["learner"])
        # Discovered states keep their numbers, or the table's rows would mean other states.
        self._world.recall(saved["numbering"])
        self._mind.recall(saved["beliefs"])

    async def _episode(self) -> None:
        world, learner, episode = self._world, self._learner, self._learner.episode
        state = world.reset(episode)
        learner.meet(state)
        total, step, reward, ended = 0.0, 0, 0.0, False
        recorded = (
            self._process.telemetry is not None and episode % self._settings.record_every == 0
        )
        while not ended:
            self._perceive(state, step, reward)
            decision = self._mind.decide()
            move = world.step(self._act(decision, state))
            learner.meet(move.state)
            learner.learn(state, move.action, move.reward, move.state, move.terminated)
            if recorded:
                self._tell_step(episode, step, move, decision)
            total += move.reward
            step += 1
            state, reward, ended = move.state, move.reward, move.ended
            if time.monotonic() - self._breath > BREATH_S:
                await asyncio.sleep(0)
                self._breath = time.monotonic()
        won = world.won(move)
        learner.finish_episode(total, won)
        info = {"success_rate": learner.success_rate, "epsilon": learner.epsilon}
        seed = world.seed_of(episode)
        self._process.tell_episode(episode, step, total, won, seed, info, self._account.learner)

    def _perceive(self, state: int, step: int, reward: float) -> None:
        learner = self._learner
        self._mind.perceive(
            {
                "state": state,
                "episode": learner.episode,
                "step": step,
                "visits": learner.visits[state],
                "value": max(learner.table[state]),
                "last_reward": reward,
                "epsilon": learner.epsilon,
                "success_rate": learner.success_rate,
                "best_rate": learner.best_rate,
                "known_plan": learner.best_rate if learner.known_plan else None,
            }
        )

    def _act(self, decision: str, state: int) -> int:
        if decision == "explore":
            return self._learner.explore()
        if decision == "retreat":
            return self._learner.retreat(state)
        return self._learner.exploit(state)

    async def _after_episode(self) -> None:
        learner, every = self._learner, self._settings.report_every
        if every and learner.episode % every == 0:
            await self._consult_coach()
        self._recorder.metrics(
            learner.episode,
            learner.steps,
            {
                RETURN: fmean(learner.returns),
                "success_rate": learner.success_rate,
                "epsilon": learner.epsilon,
            },
        )
        if self._recorder.due(learner.episode):
            self._recorder.save()

    async def _consult_coach(self) -> None:
        learner = self._learner
        report = f"report({learner.episode}, {learner.success_rate:.4f}, {learner.best_rate:.4f})"
        patience = ADVICE_S if self._coach_answers else 0.0
        answered = await self.agent.ask_coach(self._account.coach, report, patience)
        if not answered and not self.agent.lost.is_set() and self._coach_answers:
            self._coach_answers = False
            text = f"the coach did not answer within {ADVICE_S:g} s; no longer waiting for it"
            self._process.emit.note("note", {"text": text})

    async def _keep_link(self) -> None:
        agents = [agent for agent in (self.agent, self._coach) if agent is not None]
        if not any(agent.lost.is_set() for agent in agents):
            return
        where = f"{self._account.host}:{self._account.port}"
        text = (
            f"the XMPP server at {where} has gone; waiting {self._settings.reconnect_s:g} s for it"
        )
        self._process.emit.note("note", {"text": text})
        if self._server is not None and not self._server.alive:
            await asyncio.to_thread(self._server.start)
        for agent in agents:
            if agent.lost.is_set() and not await agent.reconnect(self._settings.reconnect_s):
                self._recorder.save()
                raise XmppError(
                    f"the XMPP server at {where} has gone and did not come back "
                    f"within {self._settings.reconnect_s:g} s (episode {self._learner.episode})",
                    "start the server and resume the run: its last checkpoint is complete",
                )
        self._process.emit.note("note", {"text": f"the XMPP server at {where} is back"})

    def _tell_step(self, episode: int, step: int, move: Move, decision: str) -> None:
        info = {
            "decision": decision,
            "intention": f"!act by @{self._mind.plan}",
            "beliefs": self._mind.beliefs(),
        }
        picture = self._world.picture()
        self._process.tell_step(episode, step, move, picture, info, self._account.learner)

    def _snapshot(self) -> Snapshot:
        content: AgentState = {
            "env_id": self._settings.env_id,
            "headless": False,
            "actions": self._world.actions,
            "learner": self._learner.state(),
            "numbering": self._world.numbering(),
            "beliefs": self._mind.own_beliefs(),
        }
        return Snapshot(self._learner.episode, self._learner.steps, content)

    def _policy(self) -> Policy:
        return policy_document(
            self._settings, self._world.actions, self._learner.table, self._world.numbering()
        )
