"""Training without agents: the fast learner in chunks, telemetry by summary."""

from __future__ import annotations

from statistics import fmean
from typing import cast

from mosaic.curves.names import LENGTH, RETURN
from spade_bdi_rl_worker import checkpoints
from spade_bdi_rl_worker.errors import WorldError
from spade_bdi_rl_worker.headless import HeadlessLearner, HeadlessState
from spade_bdi_rl_worker.process import SpadeProcess
from spade_bdi_rl_worker.recorder import Recorder, Snapshot, policy_document
from spade_bdi_rl_worker.schedule import Schedule
from spade_bdi_rl_worker.settings import Settings
from spade_bdi_rl_worker.tables import transition_table
from spade_bdi_rl_worker.worlds import episode_limit, make_env

# Small enough for a quick answer to pause and stop, large enough to cost nothing.
CHUNK_EPISODES = 2000


def schedule_of(settings: Settings) -> Schedule:
    """The learning schedule that a run's settings ask for."""
    return Schedule(
        alpha=settings.alpha,
        alpha_end=settings.alpha_end,
        gamma=settings.gamma,
        epsilon_start=settings.epsilon_start,
        epsilon_end=settings.epsilon_end,
        exploration_fraction=settings.exploration_fraction,
    )


def make_learner(settings: Settings) -> HeadlessLearner:
    """The fast learner of a run.

    Raises:
        WorldError: The environment publishes no transition table.
    """
    env = make_env(settings.env_id, settings.max_steps, settings.env_kwargs, None)
    table = transition_table(env)
    limit = episode_limit(env)
    env.close()
    if table is None:
        raise WorldError(
            f"{settings.env_id} has no transition table, which the headless mode needs",
            "leave headless out: the agent learns this environment step by step",
        )
    return HeadlessLearner(
        table,
        schedule_of(settings),
        settings.seed,
        settings.planned_episodes,
        limit,
        settings.lanes or None,
        every_end_wins=settings.env_id.startswith("CliffWalking"),
    )


def train(process: SpadeProcess, settings: Settings) -> None:
    """Train to the end, or until asked to stop."""
    learner = make_learner(settings)
    if settings.mode == "resume_training":
        path = checkpoints.find_full(settings.checkpoint_path, process.run_dir)
        saved = checkpoints.read(path, "full")
        checkpoints.check_fits(saved, path, env_id=settings.env_id, headless=True)
        learner.restore(cast(HeadlessState, saved["learner"]))

    def snapshot() -> Snapshot:
        content = {"env_id": settings.env_id, "headless": True, "learner": learner.state()}
        return Snapshot(learner.episode, learner.steps, content)

    recorder = Recorder(
        process,
        settings,
        snapshot,
        lambda: policy_document(settings, learner.mdp.actions, learner.q.tolist(), {}),
    )
    recorder.begin(learner.episode)
    next_save = learner.episode + settings.checkpoint_every
    while not settings.finished(learner.episode, learner.steps):
        if not process.safe_point(recorder.save):
            break
        _chunk(process, settings, learner, recorder)
        due = bool(settings.checkpoint_every) and learner.episode >= next_save
        if due or recorder.passed_mark(learner.episode):
            next_save = learner.episode + max(settings.checkpoint_every, 10 * CHUNK_EPISODES)
            recorder.save()
    recorder.save()
    process.summary = {
        "episodes": learner.episode,
        "steps": learner.steps,
        "success_rate": learner.wins / max(1, learner.episode),
    }


def _chunk(
    process: SpadeProcess, settings: Settings, learner: HeadlessLearner, recorder: Recorder
) -> None:
    before = learner.episode, learner.steps, learner.wins, learner.return_sum
    goal = settings.stop_at or settings.planned_episodes
    learner.run(min(goal, learner.episode + CHUNK_EPISODES))
    episodes = learner.episode - before[0]
    steps, wins, gained = (
        learner.steps - before[1], learner.wins - before[2], learner.return_sum - before[3],
    )  # fmt: skip
    if process.telemetry is not None:
        process.telemetry.add_to_summary(episodes, steps, gained)
        process.telemetry.summarise(learner.episode)
    recorder.metrics(
        learner.episode,
        learner.steps,
        {
            RETURN: fmean(learner.returns),
            LENGTH: fmean(learner.lengths),
            "success_rate": wins / episodes,
        },
    )
