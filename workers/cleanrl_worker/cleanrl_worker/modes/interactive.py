"""Interactive: a session of JSON lines on stdin and stdout, so it needs a terminal or a program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker import bundles
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes import policy_eval
from cleanrl_worker.modes.plan import Plan
from mosaic.config.json_types import JsonValue
from mosaic.workers import Problem

PROGRAM = "cleanrl_worker.programs.interactive"
NEEDS_BOTH_ENDS = "CFG135"


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """A policy, where one is given, knows its algorithm and its environment."""
    return policy_eval.complete(config, run_dir) if config.extras.policy_path else config


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """A policy, where one is given, must be usable."""
    if config.extras.policy_path:
        yield from policy_eval.problems(config, run_dir, thorough=thorough)
    elif not config.env_id:
        text = "'env_id' or 'policy_path' is required: what to step through"
        yield problem("env_id", NEEDS_BOTH_ENDS, text)


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """The session as a command of its own."""
    values: dict[str, JsonValue] = {}
    if config.env_id:
        values["env_id"] = config.env_id
    if config.extras.policy_path:
        values["policy"] = config.extras.policy_path
    return Plan(
        target=PROGRAM,
        values={**values, "seed": config.seed},
        obeys=False,
        python=bundles.interpreter(bundles.wanted_sets(config)),
    )


def refusal() -> Problem:
    """Why a daemon does not run this mode."""
    return problem(
        "extras/mode",
        NEEDS_BOTH_ENDS,
        "an interactive session talks over stdin and stdout and has no place in a queue; run: "
        "python -m cleanrl_worker.cli --interactive --env-id CartPole-v1",
    )
