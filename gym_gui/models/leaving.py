"""Names for what leaves the window as files, and what is said when it is there. Pure."""

import re

from mosaic.config.json_types import JsonValue
from mosaic.presenting.actor import TAKE_OVER
from mosaic.presenting.run_status import title_of
from mosaic.records import RunRecord


def proposed_file(run: RunRecord, ending: str) -> str:
    """What a file of this run could be called: `ppo-CartPole-v1-s1-4f2a9c.onnx`."""
    words = title_of(run).replace(" · ", "-")
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in words).strip("-.")
    return f"{plain or 'run'}-{run.run_id[-6:].lower()}{ending}"


def proposed_dataset(run: RunRecord) -> str:
    """Minari's kind of name for the episodes of a run: `cartpole/ppo-v0`."""
    env = run.env_id.rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]+", "-", re.sub(r"-v\d+$", "", env).lower()).strip("-")
    # A game without a policy is the person's own.
    who = run.algo if run.algo not in ("", "play") else "me"
    with_person = "-and-me" if run.mode == TAKE_OVER else ""
    return f"{name or 'episodes'}/{re.sub(r'[^a-z0-9]+', '-', who.lower())}{with_person}-v0"


def onnx_text(done: dict[str, JsonValue]) -> str:
    """What an ONNX export says when it is checked."""
    return (
        f"The policy is in {_name(done)}, checked on {done['checked_observations']} observations "
        "of played episodes"
    )


def page_text(done: dict[str, JsonValue]) -> str:
    """What the export of a page says."""
    return f"{_name(done)} plays {done['env_id']} in a browser"


def minari_text(done: dict[str, JsonValue]) -> str:
    """What the export of a data set says."""
    mean = done["mean_return"]
    shown = f"{mean:.4g}" if isinstance(mean, int | float) else "unknown"
    return f"{done['id']}: {done['episodes']} episodes, {done['steps']} steps, mean return {shown}"


def _name(done: dict[str, JsonValue]) -> str:
    return str(done["path"]).rpartition("/")[2]
