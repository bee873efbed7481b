"""What the runs of a report have in common, and where they differ. Pure."""

from collections.abc import Mapping, Sequence

from mosaic.presenting import formatting
from mosaic.reports.content import Report, RunFacts, Table

# Parts of a run's provenance that decide whether its numbers can be expected again.
_PLACES = {
    "code": ("git", "commit"),
    "environment package": ("environment", "package"),
    "python": ("python",),
    "platform": ("platform",),
    "processors": ("cpu_count",),
    "devices": ("devices",),
}


def run_table(runs: Sequence[RunFacts]) -> Table:
    """Every run of the report."""
    rows = tuple(
        (
            run.run_id,
            run.group or " ".join(filter(None, (run.algo, run.env_id))),
            "-" if run.seed is None else str(run.seed),
            run.outcome,
            f"{run.steps:,}",
            formatting.duration(run.seconds),
            formatting.moment(run.created_at),
        )
        for run in runs
    )
    names = ("RUN", "CONFIGURATION", "SEED", "OUTCOME", "STEPS", "TIME", "SUBMITTED")
    return Table("Runs", names, rows)


def settings_tables(runs: Sequence[RunFacts]) -> list[Table]:
    """Settings that all runs share, then those that set configurations apart."""
    facts = {_group(run): run.settings for run in runs}
    same, apart = _split(list(facts.values()))
    made = [_pairs("Settings of all runs", "SETTING", same)] if same else []
    return made + (
        [_by_name("Settings that differ", "CONFIGURATION", apart, facts)] if apart else []
    )


def provenance_tables(runs: Sequence[RunFacts]) -> list[Table]:
    """Code, machine and packages: the same for all runs, or by run where they differ."""
    facts = {run.run_id: _provenance(run) for run in runs if run.provenance}
    same, apart = _split(list(facts.values()))
    made = [_pairs("The same for all runs", "WHAT", same)] if same else []
    if apart:
        made.append(_by_name("Different between runs", "RUN", apart, facts))
    return made


def noted(report: Report) -> list[tuple[str, str]]:
    """Notes that people wrote on runs; the same note on several runs only once."""
    found: dict[str, list[str]] = {}
    for run in report.runs:
        if run.notes:
            found.setdefault(run.notes, []).append(run.name or run.run_id)
    return [
        (names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more runs", text)
        for text, names in found.items()
    ]


def _pairs(title: str, what: str, facts: Mapping[str, object]) -> Table:
    rows = tuple((name, str(value)) for name, value in facts.items())
    return Table(title, (what, "VALUE"), rows)


def _by_name(
    title: str, what: str, columns: Sequence[str], facts: Mapping[str, Mapping[str, object]]
) -> Table:
    rows = tuple(
        (name, *(str(known.get(column, "")) for column in columns)) for name, known in facts.items()
    )
    return Table(title, (what, *columns), rows)


def _group(run: RunFacts) -> str:
    return run.group or run.name or run.run_id


def _provenance(run: RunFacts) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, path in _PLACES.items():
        value: object = run.provenance
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value not in (None, ""):
            found[name] = value
    git = run.provenance.get("git")
    if isinstance(git, Mapping) and not git.get("clean", True):
        found["changes that are not in the commit"] = git.get("diff_sha256")
    packages = run.provenance.get("packages")
    if isinstance(packages, Mapping):
        found |= {f"package {name}": packages[name] for name in sorted(packages, key=str.lower)}
    return found


def _split(facts: Sequence[Mapping[str, object]]) -> tuple[dict[str, object], list[str]]:
    """What is the same everywhere, and the names of what is not."""
    names = list(dict.fromkeys(name for one in facts for name in one))
    same: dict[str, object] = {}
    apart: list[str] = []
    for name in names:
        values = [one.get(name) for one in facts]
        if all(value == values[0] for value in values):
            same[name] = values[0]
        else:
            apart.append(name)
    return same, apart
