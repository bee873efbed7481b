"""The commands that make a report's numbers again. Pure."""

import shlex
from collections.abc import Sequence

from mosaic.curves.names import RETURN, TAGS
from mosaic.reports.content import RunFacts, slug
from mosaic.statistics.comparison import Question

CONFIGS = "configs"


def config_name(run: RunFacts) -> str:
    """The file of a run's configuration in the report's folder."""
    seed = "" if run.seed is None else f"-seed-{run.seed}"
    what = slug(run.group or f"{run.algo} {run.env_id}")[:60]
    # With its id: two groups may be named alike after they were cut.
    return f"{CONFIGS}/{what}{seed}-{run.run_id}.json"


def can_submit(run: RunFacts) -> bool:
    """Whether the configuration alone makes the run again: it starts from nothing."""
    return bool(run.config) and run.mode not in ("policy_eval", "resume_training")


def compare_command(word: str, question: Question) -> str:
    """The command whose table the report shows; `word` is quoted for a shell already."""
    metric = f" --metric {shlex.quote(question.metric)}" if question.metric != TAGS[RETURN] else ""
    return f"mosaic compare {word}{metric}{'' if question.higher_is_better else ' --minimize'}"


def commands_again(
    parts: Sequence[tuple[str, str]], runs: Sequence[RunFacts], question: Question
) -> str:
    """A shell program for the folder of a report.

    Args:
        parts: Kind and name of each set of runs.
        runs: Every run.
        question: What is compared.
    """
    lines = [
        "#!/bin/sh",
        "# Trains and compares everything of this report again. Run it in the report's folder.",
        "# MOSAIC_HOME names the home that is used. An empty one keeps old and new runs apart.",
        "set -e",
        "mosaic status > /dev/null 2>&1 || mosaic up",
        'ids=""',
    ]
    fresh = [run for run in runs if can_submit(run) and not _is_trial(run)]
    lines += [f"ids=\"$ids $(mosaic submit '{config_name(run)}')\"" for run in fresh]
    lines.append('for id in $ids; do mosaic watch "$id" > /dev/null; done')
    for kind, name in parts:
        if kind == "sweep":
            lines.append(
                f"# The trials of sweep {name} are not made again; see {CONFIGS}/ for each."
            )
            continue
        if kind == "evaluation":
            lines.append(_evaluate(name, runs))
        word = shlex.quote(f"{kind}={name}") if name else "$ids"
        lines.append(compare_command(word, question))
    made_from = [run for run in runs if run.mode == "resume_training"]
    for run in made_from:
        start = f"{run.run_id} continues run {run.parent_run_id}"
        lines.append(f"# Not made again by this program: {start}")
    return "\n".join(lines) + "\n"


def _is_trial(run: RunFacts) -> bool:
    # Without the study of their sweep they would be runs that belong to nothing.
    return any(tag.startswith("sweep=") for tag in run.tags)


def _evaluate(name: str, runs: Sequence[RunFacts]) -> str:
    tag = f"evaluation={name}"
    one = next((run for run in runs if tag in run.tags), None)
    episodes = one.settings.get("eval_episodes", 20) if one else 20
    seed = one.seed if one and one.seed is not None else 1
    return (
        f"mosaic experiment evaluate {shlex.quote(name)} --episodes {episodes} --seed {seed} --wait"
    )
