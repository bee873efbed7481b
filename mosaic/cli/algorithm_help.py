"""A command whose first argument is an algorithm: help and completion know its arguments."""

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from mosaic.cli.options import ALGORITHM
from mosaic.config.flags import flag_of

if TYPE_CHECKING:
    from mosaic.workers.facts import ArgumentFacts

# The daemon sets these for each run.
_THE_WORKERS_OWN = {"--run-dir", "--tensorboard-dir"}


class AlgorithmCommand(click.Command):
    """`mosaic train ppo --help` lists PPO's own arguments below those that all algorithms have."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Help is printed while the words are read, so the algorithm must be known before.
        ctx.meta[ALGORITHM] = next((word for word in args if not word.startswith("-")), "")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        typed = ctx.meta.get(ALGORITHM, "")
        if typed:
            _write_arguments(ctx, typed, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        known = super().shell_complete(ctx, incomplete)
        typed = ctx.params.get("algo") or ""
        if not typed or not incomplete.startswith("-"):
            return known
        flags = [
            CompletionItem(flag_of(item["name"]), help=item["help"]) for item in _arguments(typed)
        ]
        taken = {item.value for item in known}
        return known + [
            item for item in flags if item.value.startswith(incomplete) and item.value not in taken
        ]


def _arguments(typed: str) -> "list[ArgumentFacts]":
    """What the algorithm declares; nothing where it is unknown or its worker does not say."""
    from mosaic.errors import MosaicError
    from mosaic.workers.algorithms import find_algorithm

    try:
        return find_algorithm(typed).arguments or []
    except MosaicError:
        # The command itself refuses it, with the nearest name.
        return []


def _write_arguments(ctx: click.Context, typed: str, formatter: click.HelpFormatter) -> None:
    from mosaic.errors import MosaicError
    from mosaic.workers import parameters
    from mosaic.workers.algorithms import find_algorithm

    try:
        algorithm = find_algorithm(typed)
    except MosaicError as error:
        with formatter.section(f"Arguments of {typed}"):
            formatter.write_text(str(error))
        return
    # What the command has as an option of its own is listed above.
    told = {flag for option in ctx.command.params for flag in option.opts} | _THE_WORKERS_OWN
    facts = algorithm.facts or {}
    title = facts.get("title", "")
    with formatter.section(f"Arguments of {typed}" + (f" ({title})" if title else "")):
        rows = [
            (flag_of(item["name"]), f"{_first_sentence(item['help'])} [{parameters.summary(item)}]")
            for item in algorithm.arguments or ()
            if flag_of(item["name"]) not in told
        ]
        if rows:
            formatter.write_dl(rows)
        else:
            formatter.write_text("Its worker does not declare any; every flag is passed to it.")


def _first_sentence(text: str) -> str:
    """The help without the range at its end, which is written in words after it."""
    return " ".join(text.partition(" [")[0].partition(" (0,")[0].split())
