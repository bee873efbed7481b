"""`make prove`: every mutant, every edit and every learning run, the long ones too, in one table.

    PYTHONPATH=tests:. python -m mutants.prove [--only mutants|edits|learning ...] [ALGORITHM ...]

Prints the table and keeps it in `benchmarks/results/proof.json`, from where
`python -m benchmarks.learning.coverage` takes it into `docs/coverage.md`. Algorithms that are not
named keep their rows. The exit status is 1 when a mutant or an edit survived, or an algorithm did
not learn.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.learning.fingerprint import fingerprint
from cleanrl_worker.running.schema import script_names
from mutants.catalog import all_learning, all_mutants, checks_of, promises, reason_for
from mutants.edits import edits, noticed
from mutants.learning import Learning, file_of
from mutants.subject import Mutant, killer, original

# A trial and a run compute in one thread: as many side by side as there are cores.
CORES = len(os.sched_getaffinity(0))
PARTS = ("mutants", "edits", "learning")
RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "proof.json"


def main() -> int:
    """Prove the algorithms named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="the other parts stay")
    parser.add_argument("algorithms", nargs="*", help="by default all")
    options = parser.parse_args()
    named, parts = options.algorithms, options.only or PARTS
    record = _read()
    files = sorted({_stem(mutant.file) for mutant in all_mutants()})
    for part, work in (("mutants", _try_all), ("edits", _edit_all)):
        if part in parts:
            _side_by_side(
                # A new process for each file: JAX keeps the programs that it compiled.
                ProcessPoolExecutor(CORES, mp_context=get_context("spawn"), max_tasks_per_child=1),
                {name: (work, name) for name in files if not named or name in named},
                record[part],
                record,
            )
    if "learning" in parts:
        cases = [case for case in all_learning() if not named or case.algorithm in named]
        _side_by_side(
            ThreadPoolExecutor(CORES),
            {str(case): (_learn, case) for case in cases},
            record["learning"],
            record,
        )
    return int(_print(record))


def _side_by_side(
    pool: Executor,
    jobs: dict[str, tuple[Callable[..., object], object]],
    part: dict[str, object],
    record: dict[str, Any],
) -> None:
    """Work the jobs off, each on one core. Hours may follow, so each result is kept at once.

    Raises:
        ExceptionGroup: Some could not be worked off; all others were.
    """
    broken = []
    with pool:
        names = {pool.submit(*job): name for name, job in jobs.items()}
        for done in as_completed(names):
            try:
                part[names[done]] = done.result()
            except Exception as error:
                error.add_note(f"while {names[done]} was tried")
                broken.append(error)
            _write(record)
    if broken:
        raise ExceptionGroup("not everything could be tried", broken)


def _try_all(algorithm: str) -> list[dict[str, Any]]:
    """Every mutant of one algorithm, in a process of its own."""
    mutants = [mutant for mutant in all_mutants() if _stem(mutant.file) == algorithm]
    # A check that fails for the file as it is proves nothing about its mutants.
    for file, check in promises(mutants):
        check(original(file))
    return [_try(mutant) for mutant in mutants]


def _try(mutant: Mutant) -> dict[str, Any]:
    began = time.monotonic()
    by = killer(mutant)
    return {"why": mutant.why, "killed_by": by, "seconds": round(time.monotonic() - began, 1)}


def _edit_all(algorithm: str) -> dict[str, Any]:
    """Every edit of one algorithm, in a process of its own."""
    began = time.monotonic()
    file = f"cleanrl/{algorithm}.py"
    checks = checks_of(file)
    for check in checks:
        check(original(file))
    found = edits(file)
    to_notice = [edit for edit in found if reason_for(edit) is None]
    survivors = []
    # What is loaded by now stays, and need not be looked through after each edit.
    gc.freeze()
    for edit in to_notice:
        check = noticed(edit, checks)
        _clean_up()
        if check is None:
            survivors.append(str(edit))
        else:
            # What noticed one edit is likely to notice the next, which is of the same line.
            checks.sort(key=lambda other: other is not check)
    return {
        "edits": len(found),
        "harmless": len(found) - len(to_notice),
        "survivors": survivors,
        "seconds": round(time.monotonic() - began, 1),
        "code": fingerprint(algorithm),
    }


def _clean_up() -> None:
    """Free what the trials kept and JAX compiled: of hundreds it would not fit into the memory."""
    gc.collect()
    if (jax := sys.modules.get("jax")) is not None:
        jax.clear_caches()


def _learn(case: Learning) -> dict[str, Any]:
    began = time.monotonic()
    untrained = case.measure(file_of(case), learn=False)
    trained = case.measure(file_of(case))
    return {
        "algorithm": case.algorithm,
        "flags": case.flags,
        "untrained": round(untrained, 2),
        "trained": round(trained, 2),
        "wanted": round(case.wanted(untrained), 2),
        "learned": trained >= case.wanted(untrained),
        "seconds": round(time.monotonic() - began, 1),
        "code": fingerprint(case.algorithm),
        "libraries": {name: version(name) for name in ("torch", "jax", "numpy")},
    }


def _print(record: dict[str, Any]) -> bool:
    """The table; whether anything in it is a failure."""
    failed = False
    print(f"{'':34} {'mutants':>9} {'edits':>9}  learning (untrained -> trained, wanted)")
    for name in sorted({*script_names(), *record["mutants"]}):
        tried = record["mutants"].get(name, [])
        dead = [item for item in tried if item["killed_by"]]
        runs = [item for item in record["learning"].values() if item["algorithm"] == name]
        results = [
            f"{item['untrained']:g} -> {item['trained']:g}, {item['wanted']:g}"
            f"{'' if item['learned'] else ' NOT LEARNED'}"
            for item in runs
        ]
        edited = record["edits"].get(name, {"edits": 0, "harmless": 0, "survivors": []})
        visible = edited["edits"] - edited["harmless"]
        seen = visible - len(edited["survivors"])
        print(
            f"{name:34} {len(dead):>4}/{len(tried):<4} {seen:>4}/{visible:<4}  {'; '.join(results)}"
        )
        left = [item["why"] for item in tried if not item["killed_by"]] + edited["survivors"]
        for what in left:
            print(f"{'':34} SURVIVED: {what}")
        failed |= bool(left) or not all(item["learned"] for item in runs)
    return failed


def _write(record: dict[str, Any]) -> None:
    RESULT.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _read() -> dict[str, Any]:
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    return {part: kept.get(part, {}) for part in PARTS}


def _stem(file: str) -> str:
    return Path(file).stem


if __name__ == "__main__":
    sys.exit(main())
