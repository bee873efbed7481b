"""Writes docs/coverage.md from the records: `python -m benchmarks.learning.coverage`.

Every bundled algorithm has a row. What was never recorded is shown as such.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.learning import peers, twins
from benchmarks.learning.fingerprint import fingerprint
from benchmarks.learning.records import records_of
from benchmarks.learning.settings import Published
from benchmarks.learning.verdict import is_current, published_figure, verdict
from cleanrl_worker.running.schema import SCRIPTS, read_schema, script_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"
SPEED = ROOT / "benchmarks" / "results" / "speed"
PROOF = ROOT / "benchmarks" / "results" / "proof.json"
_NOT_YET = "no record"

_PROOF_INTRODUCTION = """
## Mutants and edits noticed, and short runs that learn

Made by `make prove`. A mutant is a mistake that a person could make, such as max for min, or a
target network that never moves. Edits are made by rule, at every place of the file: plus for minus,
less for greater, a condition that always holds or never, a number doubled, a statement left out.
Each has to be noticed by a check that computes independently what the file should compute. Edits
that change nothing that anyone could see are not counted; `tests/mutants` names each with its
reason. The last column is the average return of the untrained policy and of the one after a short
run, with the version of the library that computed it where the record has it.

| algorithm | mutants noticed | edits noticed | learns |
|---|---|---|---|
"""

_TWINS_INTRODUCTION = """
## On the device and beside it

Made by `python -m benchmarks.learning.twins`: each on-device file and the file it is the twin of,
trained with the same settings for the same steps. Returns are the average over the last 100
training episodes, mean and standard deviation over seeds; a permutation test compares them.

| on the device | twin | trained on | steps | returns | code |
|---|---|---|---|---|---|
"""

_PEERS_INTRODUCTION = """
## Beside stable-baselines3, for the same steps

Made by `python -m benchmarks.learning.peers`, for budgets below the published ones. Both sides were
trained on one machine with the same hyperparameters. Returns are the average over the episodes that
ended in the last quarter of the steps, mean and standard deviation over seeds; a permutation test
compares them. It is not corrected for seeds that were added after a look: DDPG on HalfCheetah went
from 5 to 10 (p = 0.064 at 5), the first sample of DQN on Catch from 5 to 10 to 16 (p = 0.071, then
0.010 against ours). Its second sample, seeds 17 to 32, was fixed before any of them was trained.

| algorithm | trained on | steps | ours against theirs | what differs | code |
|---|---|---|---|---|---|
"""

_INTRODUCTION = """# What each algorithm does, proven

Made by `python -m benchmarks.learning.coverage` from the records in `benchmarks/results/`; do
not edit. Each record holds the commands, seeds and curves. "Return" is the average over the last
100 training episodes (mean and standard deviation over seeds, or over the episodes where there is
one seed), or the greedy policy's average where the published figure is one of evaluation. "Met"
means that our mean over seeds reaches the published one, or its 95 % interval does and is narrow;
"undecided" asks for more seeds. "Evaluation" is of
the greedy policy where there are several seeds, of the sampled one where there is one. "Code" says
whether the file and the kit behind it are still what the record was made with; a record of older
code tells what that code did.
"SPS" of a record made while other runs trained on the same machine says how many. "Speed" is the
ratio to the named peer in the same interleaved run on one thread, by the wall clock and, in
brackets, by processor time.

| algorithm | trained on | steps | return | published | code | resumes | evaluation | SPS | speed |
|---|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(script_names())} algorithms")


def page() -> str:
    """What the records say today."""
    rows = [line for name in script_names() for line in rows_of(name)]
    sources = sorted({line for name in script_names() for line in source_lines(name)})
    text = _INTRODUCTION + "\n".join(rows) + "\n" + proof_section() + peers_section()
    text += twins_section() + gpu_section()
    return text + "\n## Sources\n\n" + "\n".join(sources) + "\n"


def rows_of(name: str) -> list[str]:
    """An algorithm's lines of the table: one for each record."""
    records = records_of(name)
    if records:
        return [_row(record) for record in records]
    env_id = f"{_default_env(name)} (default)"
    cells = [name, env_id, _NOT_YET, _NOT_YET, "", "", _NOT_YET, _NOT_YET, "", _speed(name)]
    return ["| " + " | ".join(cells) + " |"]


def _row(record: dict[str, Any]) -> str:
    published = published_figure(record)
    of_evaluation = published is not None and published.of == "evaluation"
    reached = record["evaluation"] if of_evaluation else record["training_return"]
    cells = [
        record["algorithm"],
        _trained_on(record),
        _budget(record),
        _with_spread(reached),
        _published(record, published),
        "current" if is_current(record) else "older",
        "exactly" if record["resumes_exactly"] else "not exactly",
        f"{_with_spread(record['evaluation'])} ({record['evaluation_episodes']} episodes a seed)",
        _sps(record),
        _speed(record["algorithm"]),
    ]
    return "| " + " | ".join(cells) + " |"


def _default_env(algorithm: str) -> str:
    return str(read_schema(SCRIPTS / f"{algorithm}.py").algorithm["default_env"])


def proof_section() -> str:
    """What `make prove` found: mutants that were noticed, and short runs that learned."""
    proof = _read(PROOF)
    if proof is None:
        return ""
    names = sorted({*proof["mutants"], *(run["algorithm"] for run in proof["learning"].values())})
    rows = []
    for name in names:
        tried = proof["mutants"].get(name, [])
        survivors = [mutant["why"] for mutant in tried if not mutant["killed_by"]]
        runs = [run for run in proof["learning"].values() if run["algorithm"] == name]
        killed = f"{len(tried) - len(survivors)} of {len(tried)}" if tried else _NOT_YET
        if survivors:
            killed += f"; survived: {', '.join(survivors)}"
        edits = _edits(name, proof.get("edits", {}).get(name))
        learns = "; ".join(map(_learned, runs)) or _NOT_YET
        rows.append(f"| {name} | {killed} | {edits} | {learns} |")
    return _PROOF_INTRODUCTION + "\n".join(rows) + "\n"


def _edits(algorithm: str, record: dict[str, Any] | None) -> str:
    if record is None:
        return _NOT_YET
    visible = record["edits"] - record["harmless"]
    age = "" if record["code"] == fingerprint(algorithm) else ", by older code"
    return f"{visible - len(record['survivors'])} of {visible}{age}"


def _learned(run: dict[str, Any]) -> str:
    verdict = "" if run["learned"] else " (not learned)"
    age = "" if run["code"] == fingerprint(run["algorithm"]) else ", by older code"
    words = run["flags"].split()
    if "--env-id" in words:
        env_id = words[words.index("--env-id") + 1]
    else:
        env_id = _default_env(run["algorithm"])
    in_jax = "jax" in read_schema(SCRIPTS / f"{run['algorithm']}.py").algorithm["requires"]
    library = "jax" if in_jax else "torch"
    version = run.get("libraries", {}).get(library)
    made_with = f" ({library} {version})" if version else ""
    return f"{env_id}: {run['untrained']:g} → {run['trained']:g}{verdict}{made_with}{age}"


def peers_section() -> str:
    """Whether our files learn at least what stable-baselines3 learns in the same steps."""
    found = _read(peers.RESULTS) or {}
    rows = [
        "| "
        + " | ".join(
            [
                record["algorithm"],
                record["env_id"],
                _budget(record) + _which(record["seeds"]),
                peers.said(record),
                record["differs"] or "nothing",
                "current" if is_current(record) else "older",
            ]
        )
        + " |"
        for _, record in sorted(found.items())
        if peers.is_whole(record)
    ]
    return _PEERS_INTRODUCTION + "\n".join(rows) + "\n" if rows else ""


def twins_section() -> str:
    """Whether the on-device files learn what their twins learn."""
    found = _read(twins.RESULTS)
    if found is None:
        return ""
    rows = []
    for name, record in sorted(found.items()):
        current = all(code == fingerprint(side) for side, code in record["code"].items())
        cells = [
            name,
            record["twin"],
            record["env_id"],
            _budget(record),
            twins.said(name, record),
            "current" if current else "older",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return _TWINS_INTRODUCTION + "\n".join(rows) + "\n"


def gpu_section() -> str:
    """The speeds measured on GPUs, where there are any."""
    parts = []
    for path in sorted(SPEED.glob("*.json")):
        record = _read(path)
        if "measured" not in record:
            continue
        machine = record["machine"]
        parts += [
            f"\n## Speed on {machine['gpu']} with {machine['cores']} processor cores\n",
            f"Made by `{record['command']}`: one run after the other, steps a second.\n",
            "| command | SPS |\n|---|---|",
        ]
        parts += [f"| `{item['command']}` | {item['sps']:,} |" for item in record["measured"]]
    return "\n".join(parts) + "\n" if parts else ""


def source_lines(name: str) -> list[str]:
    """Where an algorithm's published figure comes from, and its paper."""
    lines = [f"- {name}: {read_schema(SCRIPTS / f'{name}.py').algorithm['paper']}"]
    for record in records_of(name):
        published = published_figure(record)
        if published is not None:
            lines.append(f"- {name}, published figure: {published.source}")
    return lines


def _published(record: dict[str, Any], published: Published | None) -> str:
    random = f"random play gets {record['random_return']}"
    if published is None:
        return f"none for this environment; {random}"
    spread = "" if published.std is None else f" ± {published.std:.1f}"
    figure = f"{published.mean:.1f}{spread}"
    if published.steps is not None and published.steps != record["total_timesteps"]:
        figure += f" at {published.steps:,} steps"
    return f"{figure}: {verdict(record, published)}; {random}"


def _trained_on(record: dict[str, Any]) -> str:
    levels = record["flags"].get("num_levels")
    if levels is None:
        return record["env_id"]
    return f"{record['env_id']}, {levels} level{'s' if levels > 1 else ''}"


def _sps(record: dict[str, Any]) -> str:
    number = f"{record['sps']['mean']:,.0f}"
    others = record.get("side_by_side", 1) - 1
    return f"{number} (beside {others} other run{'s' if others > 1 else ''})" if others else number


def _budget(record: dict[str, Any]) -> str:
    seeds = len(record["seeds"])
    return f"{record['total_timesteps']:,} x {seeds} seed{'s' if seeds > 1 else ''}"


def _which(seeds: list[int]) -> str:
    return "" if seeds[0] == 1 else f", {seeds[0]} to {seeds[-1]}"


def _with_spread(summary: dict[str, float]) -> str:
    return f"{summary['mean']:.1f} ± {summary['std']:.1f}"


def _speed(name: str) -> str:
    parts = []
    for path in sorted(SPEED.glob(f"{name}-*.json")):
        record = _read(path)
        parts.append(
            f"{record['env_id']}: {record['ratio']:.1f}x ({record['ratio_by_cpu']:.1f}x) "
            f"{record['peer']}, target {record['target']:g}x"
        )
    return "; ".join(parts) or _NOT_YET


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    main()
