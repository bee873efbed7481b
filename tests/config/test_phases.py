"""Scripts that are built from their phases: what they say, and what is refused."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mosaic.config import build
from mosaic.config.model import TrainingPhase
from mosaic.config.phases import header_of, phase_problem, script_text
from mosaic.config.pipeline import read_header
from mosaic.errors import InvalidConfigError

WARM_UP = TrainingPhase(name="warm up", algo="ppo", env_id="CartPole-v1", steps=2048)
MAIN = TrainingPhase(
    name="main",
    algo="ppo",
    env_id="CartPole-v1",
    steps=4096,
    begins="continued",
    parameters={"learning_rate": 0.0001, "anneal_lr": False},
)


def _phase(**fields: Any) -> TrainingPhase:
    return TrainingPhase(**{"name": "one", "algo": "ppo", "env_id": "A", "steps": 10, **fields})


def _words(text: str, tmp_path: Path) -> list[list[str]]:
    """The commands of a script as bash understands them, with `python` as a stand-in."""
    listed = tmp_path / "words"
    shown = 'python() { printf "%s\\n" "$#" "$@" >> "$WORDS"; }\n'
    script = tmp_path / "script.sh"
    script.write_text(shown + text)
    subprocess.run(
        ["bash", str(script)],
        env={"WORDS": str(listed), "MOSAIC_RUN_DIR": "/runs/a b", "MOSAIC_SEED": "7"},
        check=True,
    )
    lines = listed.read_text().split("\n")
    commands: list[list[str]] = []
    while lines[0]:
        count = int(lines[0])
        commands.append(lines[1 : count + 1])
        lines = lines[count + 1 :]
    return commands


def test_a_phase_that_continues_counts_on_and_changes_its_settings(tmp_path: Path) -> None:
    """The second phase begins at the first one's checkpoint and trains to the sum of both."""
    first, second = _words(script_text([WARM_UP, MAIN], "worker.cli"), tmp_path)
    assert shlex.join(first) == (
        "-m worker.cli --algo ppo --env-id CartPole-v1 --total-timesteps 2048 --seed 7 "
        "--run-dir '/runs/a b/1-warm-up'"
    )
    assert second[:4] == ["-m", "worker.cli", "--resume", "/runs/a b/1-warm-up"]
    assert second[second.index("--total-timesteps") + 1] == "6144"
    assert second[-4:] == ["--", "--learning-rate", "0.0001", "--no-anneal-lr"]


def test_a_phase_begins_with_the_policy_of_the_one_before(tmp_path: Path) -> None:
    """Then its own steps count, and the policy is named by the run of the phase before."""
    warm = _phase(name="two", begins="warm", steps=30)
    _, second = _words(script_text([_phase(), warm], "worker.cli"), tmp_path)
    assert second[second.index("--total-timesteps") + 1] == "30"
    assert second[-3:] == ["--", "--warm-start", "/runs/a b/1-one"]


def test_nothing_that_is_typed_becomes_a_command(tmp_path: Path) -> None:
    """Names, ids and values full of shell signs arrive as they are and run nothing."""
    canary = tmp_path / "canary"
    nasty = f"$(touch {canary}) `touch {canary}` ; touch {canary} # 'x' \""
    phase = _phase(
        name=nasty.replace(",", "")[:60], algo=nasty, env_id=nasty, parameters={"label": nasty}
    )
    [words] = _words(script_text([phase], nasty), tmp_path)
    assert not canary.exists()
    assert words[1] == nasty
    assert words[words.index("--algo") + 1] == nasty
    assert words[-1] == nasty


def test_the_header_says_what_the_phases_are(tmp_path: Path) -> None:
    """The worker reads names and steps from the script as from one that a person wrote."""
    path = tmp_path / "phases.sh"
    path.write_text(script_text([WARM_UP, MAIN], "worker.cli"))
    assert read_header(path) == header_of([WARM_UP, MAIN])
    assert header_of([WARM_UP, MAIN]).total_timesteps == 6144


@pytest.mark.parametrize(
    ("phases", "sentence"),
    [
        ([_phase(begins="continued")], "no phase before it"),
        ([_phase(), _phase(begins="continued", env_id="B")], "choose the same two"),
        ([_phase(), _phase(begins="continued", algo="dqn")], "choose the same two"),
        ([_phase(name="2")], "at least one letter"),
        ([_phase(), _phase(begins="warm", env_id="B")], ""),
    ],
)
def test_a_phase_that_does_not_fit_its_place_is_named(
    phases: list[TrainingPhase], sentence: str
) -> None:
    """With what to choose instead; one that fits has no problem."""
    found = phase_problem(phases, len(phases) - 1)
    assert (sentence in found) if sentence else not found


def test_the_builder_makes_one_run_of_all_phases() -> None:
    """Its total is the sum, its name says the phases, and wrong values are refused."""
    config = build.phases("cleanrl", [WARM_UP, MAIN], seed=3)
    assert config.run_name == "warm up → main"
    assert config.worker.total_timesteps == 6144
    assert config.worker.extras.script_phases == [WARM_UP, MAIN]
    assert build.read_config(config.document()) == config
    with pytest.raises(InvalidConfigError, match="script_phases"):
        build.phases("cleanrl", [])
