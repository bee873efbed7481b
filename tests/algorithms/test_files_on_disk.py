"""What a run leaves: event files that TensorBoard reads, schemas that need no torch."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cleanrl_worker.kit.args import parse_range
from cleanrl_worker.running.schema import SCRIPTS, read_schema, script_names
from cleanrl_worker.running.tensorboard import EventWriter
from cleanrl_worker.running.verification import train

TAGS = {"charts/episodic_return", "charts/episodic_length", "charts/SPS", "losses/value_loss"}


def test_tensorboard_reads_every_scalar(tmp_path: Path) -> None:
    """Values, steps and times come back as they were logged, text too."""
    writer = EventWriter(tmp_path)
    expected = [(step**3, step / 7) for step in range(300)]
    for step, value in expected:
        writer.add_scalar("charts/x", value, step, 1e9 + step)
        writer.add_scalar("a/longer/tag", -value, step, 1e9 + step)
    writer.add_text("hyperparameters", "|a|b|")
    writer.close()
    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    events.Reload()
    read = [(event.step, event.value, event.wall_time) for event in events.Scalars("charts/x")]
    assert read == [(step, pytest.approx(value), 1e9 + step) for step, value in expected]
    assert len(events.Scalars("a/longer/tag")) == 300
    text = events.Tensors("hyperparameters")[0].tensor_proto.string_val[0]
    assert text == b"|a|b|"


def test_cleanrls_tags_are_there(tmp_path: Path) -> None:
    """A dashboard made for CleanRL finds its curves."""
    train("ppo", tmp_path / "run", "--smoke")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= TAGS


@pytest.mark.parametrize("algorithm", script_names())
def test_the_schema_is_what_the_script_accepts(algorithm: str) -> None:
    """Names and defaults read without importing are those of the real Args; every argument
    has a help text, every declaration is complete, and the short settings are arguments."""
    schema = read_schema(SCRIPTS / f"{algorithm}.py")
    module = importlib.import_module(f"cleanrl_worker.cleanrl.{algorithm}")
    real = {field.name: field.default for field in dataclasses.fields(module.Args)}
    assert {name: argument.default for name, argument in schema.arguments.items()} == real
    assert [name for name, argument in schema.arguments.items() if not argument.help] == []
    wanted = {"title", "paper", "family", "actions", "observations", "default_env", "requires"}
    assert wanted <= schema.algorithm.keys()
    assert schema.smoke.keys() <= schema.arguments.keys()
    assert schema.arguments["exp_name"].default == algorithm
    for argument in schema.arguments.values():
        assert argument.range is None or argument.range.allows(argument.default)


def test_schemas_are_read_without_torch() -> None:
    """The window and the dry run pay nothing for torch."""
    program = (
        "import sys; from cleanrl_worker.running.schema import *;"
        "[read_schema(SCRIPTS / f'{name}.py') for name in script_names()];"
        "assert 'torch' not in sys.modules and 'gymnasium' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("a rate [>0]", [1e-9, 5], [0, -1]),
        ("a share [0,1]", [0, 0.5, 1], [-0.1, 1.1]),
        ("a share (0,1]", [0.1, 1], [0]),
        ("a count [>=1]", [1, 9], [0]),
        ("a mode [single|grid|off]", ["grid"], ["other"]),
    ],
)
def test_range_hints(text: str, inside: list[object], outside: list[object]) -> None:
    """The grammar of range hints does what it says."""
    allowed = parse_range(text)
    assert all(allowed.allows(value) for value in inside)
    assert not any(allowed.allows(value) for value in outside)


def test_help_shows_every_flag() -> None:
    """--help lists the script's own flags and the shared ones with their texts."""
    command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "--clip-coef" in text
    assert "--checkpoint-interval-s" in text
    assert "discount factor" in text
