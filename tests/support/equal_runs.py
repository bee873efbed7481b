"""A short learning run, and the proof that an interrupted one equals an undisturbed one."""

from mosaic.records import RunRecord
from mosaic.runs.metrics import MetricReader
from support import harness
from support.trainer import Trainer

STEPS = 60_000
# The environment of a run that must not end before a test has disturbed it.
STROLLING = "strolling:StrollingCartPole-v1"


def ppo_config(site: str, **fields: object) -> dict[str, object]:
    """A few seconds of PPO on CartPole, the same on every site.

    Args:
        site: Where it runs.
        fields: More of the worker's configuration.
    """
    own = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 3, "total_timesteps": STEPS, **fields}
    worker = {"type": "cleanrl", "config": own}
    return {"artifacts": {}, "site": site, "metadata": {"worker": worker}}


def assert_equal(lab: Trainer, one: RunRecord, other: RunRecord) -> None:
    """Weights, optimizer, random states and curve of two runs agree to the last bit."""
    folders = [lab.directory(run.run_id).path for run in (one, other)]
    states = [harness.newest_state(folder) for folder in folders]
    for part in ("policy", "objects", "random"):
        assert harness.equal(states[0][part], states[1][part]), part
    curves = [MetricReader(folder).read("charts/episodic_return") for folder in folders]
    for field in ("step", "value"):
        assert list(curves[0][field]) == list(curves[1][field]), field
