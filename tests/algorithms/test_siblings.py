"""Algorithms of one family differ where the algorithm differs, and nowhere else."""

from __future__ import annotations

import difflib
import re

import pytest

from cleanrl_worker.running.schema import SCRIPTS, script_names

# The share of the lines of both files that one of them has and the other does not.
AT_MOST = 0.15
# The same when the defaults of arguments count too: those are published hyperparameters, one line
# in each file, and say nothing about how the algorithm is written.
AT_MOST_WITH_DEFAULTS = 0.18

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
    ("dqn", "c51"),
    ("dqn_atari", "c51_atari"),
    ("c51", "c51_atari"),
    ("td3_continuous_action", "ddpg_continuous_action"),
]

# Pairs in which more than 15 % has to be different, each with a bound of its own and the reason.
FURTHER_APART = {
    # One memory for each of pqn and its network: nine lines of LSTM, whole rollouts in a minibatch.
    ("pqn_atari_envpool", "pqn_atari_envpool_lstm"): 0.20,
    # One process a GPU: the loop is a method of each process's share, and so indented further,
    # the comments in it too.
    ("ppo_atari", "ppo_atari_multigpu"): 0.36,
    # The second file is about doing in one compiled function what the first does in a loop.
    ("ppo_atari_envpool_xla_jax", "ppo_atari_envpool_xla_jax_scan"): 0.18,
    # Two critics in one tree, a random key for the noise: in JAX both are handed in and out.
    ("td3_continuous_action_jax", "ddpg_continuous_action_jax"): 0.21,
    # A network in JAX is two functions, one that makes the parameters and one that uses them.
    ("dqn_jax", "dqn_atari_jax"): 0.21,
    ("c51_jax", "c51_atari_jax"): 0.20,
    ("dqn_jax", "c51_jax"): 0.26,
}


def lines(algorithm: str, *, defaults: bool) -> list[str]:
    """Arguments, network and algorithm, with the defaults of arguments or without.

    What stands above them (title, imports, the literals that tools read) has to be different in
    every file.
    """
    text = (SCRIPTS / f"{algorithm}.py").read_text(encoding="utf-8")
    code = text[text.index("@dataclass\nclass Args") :].splitlines()
    if defaults:
        return code
    return [re.sub(r"^(    \w+: [\w| ]+) = .*", r"\1", line) for line in code]


def differing(one: str, other: str, *, defaults: bool = False) -> tuple[float, str]:
    """The share of lines that only one file has, and those lines."""
    first, second = lines(one, defaults=defaults), lines(other, defaults=defaults)
    found = [line for line in difflib.ndiff(first, second) if line[:1] in "+-"]
    share = len(found) / (len(first) + len(second))
    return share, f"{share:.1%}\n" + "\n".join(found)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_siblings_can_be_read_side_by_side(one: str, other: str) -> None:
    """A diff of two siblings shows what the second one changes: at most 15 % of the lines, and at
    most 18 % where other hyperparameters count too."""
    share, found = differing(one, other)
    assert share <= AT_MOST, found
    share, found = differing(one, other, defaults=True)
    assert share <= AT_MOST_WITH_DEFAULTS, found


@pytest.mark.parametrize(("one", "other"), FURTHER_APART)
def test_cousins_come_no_further_apart(one: str, other: str) -> None:
    """Where the algorithm itself needs more lines of its own, their share is known and held."""
    share, found = differing(one, other)
    assert share > AT_MOST, "they are siblings now: move the pair to PAIRS"
    assert share <= FURTHER_APART[one, other], found


@pytest.mark.parametrize("algorithm", script_names())
def test_no_algorithm_needs_another_one(algorithm: str) -> None:
    """A file can be read, copied and changed alone: it imports nothing of another algorithm."""
    text = (SCRIPTS / f"{algorithm}.py").read_text(encoding="utf-8")
    assert re.findall(r"from cleanrl_worker\.cleanrl\S* import .*", text) == []
