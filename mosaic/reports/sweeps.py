"""The section of a report about a sweep: its trials, Optuna's figures, fresh seeds."""

from mosaic.client.sdk import TrainerClient
from mosaic.errors import MosaicError
from mosaic.presenting import formatting
from mosaic.reports.content import Section, Table
from mosaic.statistics import tables


def sweep_section(trainer: TrainerClient, sweep_id: str) -> Section:
    """What a sweep has found.

    Raises:
        RunNotFoundError: Its study is not there.
        MosaicError: Optuna is not installed.
    """
    try:
        from mosaic.reports.study_figures import draw_study
        from mosaic.sweep.searched import read_search
    except ImportError:
        raise MosaicError(
            "the report of a sweep needs Optuna; run: pip install -r requirements/extras/optuna.txt"
        ) from None
    search = read_search(trainer, sweep_id)
    plan, names = search.plan, tuple(search.plan.space)
    rows = tuple(
        (
            str(trial.number),
            trial.state,
            formatting.number(trial.value),
            *(str(trial.params.get(name, "")) for name in names),
            trial.reason,
        )
        for trial in search.trials
    )
    found = [Table("Trials", ("TRIAL", "STATE", "VALUE", *names, "REASON"), rows)]
    confirmed = tuple(
        (
            str(one.trial),
            tables.score(one.searched),
            tables.score(one.mean),
            tables.between(one.interval),
            tables.score(one.optimism(plan.maximise)),
        )
        for one in search.confirmed
    )
    if confirmed:
        columns = ("TRIAL", "SEARCH", "FRESH SEEDS", "95 % CI", "PROMISED TOO MUCH")
        found.insert(0, Table("The best trials with fresh seeds", columns, confirmed))
    best = search.best
    seeds = f", the mean of {plan.seeds} seeds" if plan.seeds > 1 else ""
    return Section(
        name=f"sweep-{sweep_id}",
        title=f"Sweep: {plan.subject}",
        lead=(
            f"{len(search.trials)} trials, {len(search.complete)} of them complete. The value is "
            f"{plan.objective}{seeds}; {'more' if plan.maximise else 'less'} is better.",
            *((f"The best settings: {plan.train_command(best.params)}",) if best else ()),
        ),
        figures=draw_study(f"sweep-{sweep_id}", search.rows()),
        tables=tuple(found),
        notes=(
            *((f"No more trials: {search.halted}",) if search.halted else ()),
            *(() if confirmed else (_CURSE,)),
        ),
    )


_CURSE = (
    "The best of many noisy values is lucky as well as good: expect less of the best settings with "
    "other seeds. `mosaic sweep confirm` says how much less."
)
