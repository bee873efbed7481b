"""What became of a sweep: shown, confirmed with fresh seeds, and its best settings trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mosaic.cli import output
from mosaic.client import TrainerClient
from mosaic.statistics import tables

if TYPE_CHECKING:
    # Optuna is optional, and slow to import: only what needs it does.
    from mosaic.sweep.results import Search
    from mosaic.sweep.study import SweepStudy

WORDS = ("show", "confirm", "best", "stop")
SHOWN_TRIALS = 10
# Enough that the true best is probably among them, few enough to be affordable.
TOP = 3
Say = Callable[[str], None]


def about_sweep(word: str, arguments: Sequence[str], top: int, fresh: int, as_json: bool) -> int:
    """`mosaic sweep show|confirm|best|stop ID`.

    Args:
        word: Which of them.
        arguments: The sweep's id, any run of it, or `last`.
        top: How many trials are confirmed.
        fresh: How many fresh seeds each gets.
        as_json: Print JSON instead of text.
    """
    if len(arguments) != 1:
        raise click.UsageError(f"name one sweep: mosaic sweep {word} ID (`mosaic sweep list`)")
    from mosaic.sweep.searched import read_search, search_of

    with TrainerClient.connect() as trainer:
        if word == "show":
            print_search(read_search(trainer, arguments[0]), as_json, with_importance=True)
            return 0
        if word == "stop":
            from mosaic.sweep.study import ask_to_halt

            ask_to_halt(directory_of(trainer, arguments[0]))
            output.say("no more trials start; running ones continue to their end")
            return 0
        if word == "best":
            return _train_best(trainer, read_search(trainer, arguments[0]), fresh, as_json)
        from mosaic.sweep.study import SweepStudy

        study = SweepStudy.load(directory_of(trainer, arguments[0]))
        try:
            say = (lambda _text: None) if as_json else output.say
            confirm_study(trainer, study, say, top, fresh)
            found = search_of(study.facts(), study.sweep_id)
        finally:
            study.close()
    print_search(found, as_json)
    return 0


def directory_of(trainer: TrainerClient, word: str) -> Path:
    """The directory with the study of the sweep that a word names."""
    from mosaic.sweep.searched import sweep_id_of

    return Path(trainer.get(sweep_id_of(trainer, word)).run_dir)


def confirm_study(
    trainer: TrainerClient, study: SweepStudy, say: Say, top: int, fresh: int
) -> None:
    """Train the best trials with fresh seeds, and keep what they say in the study."""
    from mosaic.sweep.finishing import confirm, kept
    from mosaic.sweep.searched import search_of

    search = search_of(study.facts(), study.sweep_id)
    study.note_confirmed(kept(confirm(trainer, search, say, top=top, seeds=fresh)))


def _train_best(trainer: TrainerClient, search: Search, fresh: int, as_json: bool) -> int:
    from mosaic.sweep.finishing import best_name, train_best

    made = train_best(trainer, search, fresh)
    name = best_name(search.sweep_id)
    if as_json:
        output.print_json({"experiment": name, "runs": [*made.found, *made.added]})
        return 0
    output.say(f"experiment {name}: {len(made.added)} runs submitted, {len(made.found)} were there")
    output.say(f"follow it: mosaic experiment show {name}")
    output.say(f"hand it over: mosaic report {name} sweep={search.sweep_id}")
    return 0


def print_search(search: Search, as_json: bool, *, with_importance: bool = False) -> None:
    """What a sweep has found."""
    plan, best = search.plan, search.best
    command = plan.train_command(best.params) if best else None
    importance = _importance(search) if with_importance else {}
    if as_json:
        output.print_json(
            {
                "sweep_id": search.sweep_id,
                "objective": str(plan.objective),
                "maximise": plan.maximise,
                "trials": [vars(trial) for trial in search.trials],
                "best": vars(best) if best else None,
                "command": command,
                "halted": search.halted,
                "confirmed": [vars(one) for one in search.confirmed],
                **({"importance": importance} if with_importance else {}),
            }
        )
        return
    _print_trials(search)
    for name, share in importance.items():
        output.say(f"importance of {name}: {share:.2f}")
    if search.confirmed:
        _print_confirmed(search)
    if search.halted:
        output.say(f"no more trials: {search.halted}")
    if command:
        output.say(f"train the best one again:\n{command}")
        output.say(f"train it with fresh seeds: mosaic sweep best {search.sweep_id}")
    else:
        reasons = (trial.reason for trial in search.trials if trial.reason)
        output.say(f"no trial has a value: {next(reasons, 'no trial has ended')}")


def _print_trials(search: Search) -> None:
    names = list(search.plan.space)
    rows = [
        [str(trial.number), trial.state, output.number(trial.value, 3)]
        + [cell(trial.params.get(name)) for name in names]
        + [trial.runs[0] if trial.runs else "-"]
        for trial in search.trials[:SHOWN_TRIALS]
    ]
    output.print_table(("TRIAL", "STATE", "VALUE", *map(str.upper, names), "RUN"), rows)
    if len(search.trials) > SHOWN_TRIALS:
        every = f"mosaic runs --text sweep={search.sweep_id}"
        print(f"the best {SHOWN_TRIALS} of {len(search.trials)} trials; all of them: {every}")


def _print_confirmed(search: Search) -> None:
    output.say("")
    output.say("The best trials with seeds that the search has not seen")
    rows = [
        [
            str(one.trial),
            tables.score(one.searched),
            tables.score(one.mean),
            tables.between(one.interval),
            str(len(one.scores)),
            tables.score(one.optimism(search.plan.maximise)),
        ]
        for one in search.confirmed
    ]
    names = ("TRIAL", "SEARCH", "FRESH SEEDS", "95 % CI", "SEEDS", "PROMISED TOO MUCH")
    output.print_table(names, rows)
    output.say("")


def _importance(search: Search) -> dict[str, float]:
    """Importance of the parameters by Optuna's fANOVA; empty with too few trials."""
    from mosaic.reports.study_figures import importance_of

    return importance_of(search.rows())


def cell(value: object) -> str:
    """A setting in a column."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
