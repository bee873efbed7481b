"""Taking over: the policy of a run plays, and a person takes the controls and hands them back.

The policy plays in a run of its own. What a person does is never learned from by the run whose
policy it is, and never counted in an evaluation: on-policy data that the policy did not make, and
returns that it did not earn, would be wrong numbers.
"""

from mosaic.client.saving import save_now
from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.errors import MosaicError
from mosaic.presenting.actor import TAKE_OVER
from mosaic.presenting.run_status import can_save
from mosaic.records import RunRecord
from mosaic.workers.algorithms import worker_for

# A person waits for it; a run that is slower plays with the policy that it saved last.
_SAVE_LIMIT_S = 15.0


def play_with(
    trainer: TrainerClient,
    run_id: str,
    *,
    worker: str = "",
    seed: int = 1,
    script: str = "",
    fps: float | None = None,
) -> RunRecord:
    """Start a session with the newest policy of a run.

    Args:
        trainer: The daemon.
        run_id: A run that trains or has trained, or an evaluation: then the policy it plays.
        worker: Who holds the keys, where several can.
        seed: The seed of the first episode; each further one adds 1.
        script: A key script; empty for a person at the keys.
        fps: Steps per second; the environment's own by default.

    Returns:
        The session, a run that has just been submitted; `PlayClient` is its player's end.

    Raises:
        InvalidConfigError: The run has saved no policy, or its worker's policies cannot be played.
    """
    base = _up_to_date(trainer, trainer.get(run_id))
    config = build.take_over(
        worker_for(TAKE_OVER, worker).worker_type,
        base,
        policy=_evaluated(trainer, base),
        seed=seed,
        script=script,
        fps=fps,
    )
    newest = base.newest_checkpoint("policy")
    return trainer.submit(
        config, parent_run_id=base.run_id, parent_step=newest.step if newest else None
    )


def _up_to_date(trainer: TrainerClient, base: RunRecord) -> RunRecord:
    """A run that trains saves first: the policy that is watched is the one that takes part."""
    if not can_save(base):
        return base
    try:
        return save_now(trainer, base.run_id, _SAVE_LIMIT_S)
    except MosaicError:
        # It has ended meanwhile, or its disk is full: what it saved before is still there.
        return trainer.get(base.run_id)


def _evaluated(trainer: TrainerClient, base: RunRecord) -> str:
    """The policy that an evaluation or another session plays; empty for a run with its own."""
    if base.mode not in ("policy_eval", TAKE_OVER):
        return ""
    return build.read_config(trainer.config(base.run_id)).worker.extras.policy_path or ""
