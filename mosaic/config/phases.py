"""Scripts that are built from their phases instead of being written by hand. Pure.

A phase is one training: an algorithm in an environment for some steps, with settings of its own.
It begins afresh, continues the phase before it, or begins with the policy of that phase. The
window shows the text while a person builds the phases, and the worker runs the same text.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from mosaic.config.flags import as_words
from mosaic.config.json_types import JsonValue
from mosaic.config.model import TrainingPhase
from mosaic.config.pipeline import PipelineHeader

# The argument with which an algorithm begins with a policy that was trained before.
WARM_START = "warm_start"
_NOT_IN_A_FOLDER = re.compile(r"[^A-Za-z0-9._-]+")
# As long as lines of a script are comfortable to read.
_WIDTH = 96


def header_of(phases: Sequence[TrainingPhase]) -> PipelineHeader:
    """What a script of these phases says about itself."""
    return PipelineHeader(
        phases=tuple(phase.name for phase in phases),
        total_timesteps=sum(phase.steps for phase in phases),
    )


def phase_problem(phases: Sequence[TrainingPhase], place: int) -> str:
    """What is wrong with a phase at its place among the others; empty if nothing is."""
    phase = phases[place]
    if phase.name.strip().isdigit():
        # In a header a bare number stands for that many phases without names.
        return f"{phase.name!r} cannot name a phase: use at least one letter"
    if phase.begins == "fresh":
        return ""
    if place == 0:
        return "the first phase has no phase before it: let it begin fresh"
    before = phases[place - 1]
    if phase.begins == "continued" and (phase.algo, phase.env_id) != (before.algo, before.env_id):
        return (
            f"it continues {before.name!r}, which trains {before.algo} in {before.env_id}: choose "
            "the same two, or let it begin with the policy or fresh"
        )
    return ""


def script_text(phases: Sequence[TrainingPhase], module: str) -> str:
    """The shell script that trains these phases one after the other.

    Args:
        phases: Without problems; see `phase_problem`.
        module: The worker's command, as `python -m` starts it.
    """
    header = header_of(phases)
    lines = [
        "#!/usr/bin/env bash",
        f"# @phases {', '.join(header.phases)}",
        f"# @total_timesteps {header.total_timesteps}",
        "set -eu",
    ]
    for place, phase in enumerate(phases):
        lines += ["", f"# {phase.name}", *_wrapped(list(_words(phases, place, module)))]
    return "\n".join(lines) + "\n"


def _words(phases: Sequence[TrainingPhase], place: int, module: str) -> Iterator[str]:
    """The command of one phase, word by word, ready for the shell."""
    phase = phases[place]
    before = f'"$MOSAIC_RUN_DIR/{_folder(phases, place - 1)}"' if place else ""
    yield from ("python", "-m", shlex.quote(module))
    if phase.begins == "continued":
        yield from ("--resume", before)
    yield from ("--algo", shlex.quote(phase.algo), "--env-id", shlex.quote(phase.env_id))
    yield from ("--total-timesteps", str(_total(phases, place)), "--seed", '"$MOSAIC_SEED"')
    yield from ("--run-dir", f'"$MOSAIC_RUN_DIR/{_folder(phases, place)}"')
    settings = [shlex.quote(word) for word in _settings(phase.parameters)]
    if phase.begins == "warm":
        settings += [f"--{WARM_START.replace('_', '-')}", before]
    if settings:
        yield from ("--", *settings)


def _settings(parameters: dict[str, JsonValue]) -> Iterator[str]:
    for name, value in parameters.items():
        yield from as_words(name, value)


def _total(phases: Sequence[TrainingPhase], place: int) -> int:
    """Steps in all of the training that a phase belongs to: one that continues counts on."""
    steps = phases[place].steps
    return steps + _total(phases, place - 1) if phases[place].begins == "continued" else steps


def _folder(phases: Sequence[TrainingPhase], place: int) -> str:
    """Where a phase keeps its files; the number keeps two phases of one name apart."""
    readable = _NOT_IN_A_FOLDER.sub("-", phases[place].name).strip("-.")
    return f"{place + 1}-{readable}".rstrip("-")


def _wrapped(words: list[str]) -> Iterator[str]:
    """Words as lines of a shell command, a flag never apart from its value."""
    line = ""
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        together = word if following.startswith("-") else f"{word} {following}"
        if line and word.startswith("-") and len(line) + len(together) > _WIDTH:
            yield line + " \\"
            line = "   "
        line = f"{line} {word}" if line else word
    yield line
