"""The quick mutants: each is noticed by one of its checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleanrl_worker.running.schema import script_names
from mutants.catalog import all_learning, all_mutants
from mutants.prove import RESULT
from mutants.subject import Mutant, killer

ENOUGH = 6
KNOWN = [mutant for mutant in all_mutants() if not mutant.slow]
# Each of their mutants compiles a program, for a second or more. Whether the files as they are keep
# their promises is seen in `test_promises`, whether the checks would notice a mistake by
# `make prove`.
COSTLY = {name for name in script_names() if "_jax" in name}
QUICK = [mutant for mutant in KNOWN if Path(mutant.file).stem not in COSTLY]


@pytest.mark.parametrize("mutant", QUICK, ids=str)
def test_no_quick_mutant_survives(mutant: Mutant) -> None:
    """An algorithm with this mistake in it would not pass unnoticed."""
    assert killer(mutant) is not None, f"no check of {mutant.file} noticed: {mutant.why}"


@pytest.mark.parametrize("algorithm", script_names())
def test_every_algorithm_has_its_mutants(algorithm: str) -> None:
    """At least six ways to get each algorithm wrong are known, and each is noticed."""
    own = [mutant for mutant in all_mutants() if Path(mutant.file).stem == algorithm]
    assert len(own) >= ENOUGH
    for mutant in own:
        mutant.apply()


@pytest.mark.parametrize("algorithm", script_names())
def test_every_algorithm_was_seen_to_learn(algorithm: str) -> None:
    """No script is shipped that never learned: `make prove` has trained it, and asked for more than
    the untrained policy got."""
    assert any(case.algorithm == algorithm for case in all_learning())
    runs = json.loads(RESULT.read_text(encoding="utf-8"))["learning"].values()
    own = [run for run in runs if run["algorithm"] == algorithm]
    assert own
    for run in own:
        assert run["trained"] >= run["wanted"] > run["untrained"]
