"""Algorithms of one family differ where the algorithm differs, and nowhere else."""

from __future__ import annotations

import difflib
import re

import pytest

from cleanrl_worker.kit.schema import SCRIPTS, script_names

# The share of the lines of both files that one of them has and the other does not.
AT_MOST = 0.15

PAIRS = [
    ("ppo", "ppo_atari"),
    ("ppo", "ppo_continuous_action"),
    ("ppo_continuous_action", "rpo_continuous_action"),
    ("ppo_atari", "ppo_atari_envpool"),
    ("ppo_atari", "ppo_atari_lstm"),
    ("ppo_atari", "ppo_procgen"),
    ("ppo_atari", "ppo_pettingzoo_ma_atari"),
    ("pqn", "pqn_atari_envpool"),
    ("dqn", "dqn_atari"),
    ("td3_continuous_action", "ddpg_continuous_action"),
]


def lines(algorithm: str) -> list[str]:
    """Arguments, network and algorithm.

    What stands above them (title, imports, the literals that tools read) has to be different in
    every file, and so may the default of an argument.
    """
    text = (SCRIPTS / f"{algorithm}.py").read_text(encoding="utf-8")
    code = text[text.index("@dataclass\nclass Args") :].splitlines()
    return [re.sub(r"^(    \w+: [\w| ]+) = .*", r"\1", line) for line in code]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_siblings_can_be_read_side_by_side(one: str, other: str) -> None:
    """A diff of two siblings shows what the second one changes: at most 15 % of the lines."""
    first, second = lines(one), lines(other)
    differing = [line for line in difflib.ndiff(first, second) if line[:1] in "+-"]
    share = len(differing) / (len(first) + len(second))
    assert share <= AT_MOST, f"{share:.1%}\n" + "\n".join(differing)


@pytest.mark.parametrize("algorithm", script_names())
def test_no_algorithm_needs_another_one(algorithm: str) -> None:
    """A file can be read, copied and changed alone: it imports nothing of another algorithm."""
    text = (SCRIPTS / f"{algorithm}.py").read_text(encoding="utf-8")
    assert re.findall(r"from cleanrl_worker\.cleanrl\S* import .*", text) == []
