"""Extras: sets that are not installed are named with the command that installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import harness

WHEEL = "tinypack-1.0-py3-none-any.whl"


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """Requirement files with one set whose package lies in a folder, not on any server."""
    folder = tmp_path / "requirements"
    (folder / "extras").mkdir(parents=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        about = "tinypack-1.0.dist-info"
        wheel.writestr("tinypack.py", "ANSWER = 42\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tinypack\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{about}/WHEEL", tags)
        wheel.writestr(f"{about}/RECORD", "")
    source = f"--no-index\n--find-links {folder}\n"
    (folder / "extras" / "tiny.txt").write_text(f"# A tiny set\n{source}tinypack==1.0\n")
    (folder / "extras" / "more.txt").write_text("-r tiny.txt\ngymnasium==1.4.0\n")
    return folder


def _install(requirements: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"MOSAIC_REQUIREMENTS": str(requirements), "MOSAIC_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "cleanrl_worker.tools.install_extras", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


def test_a_missing_set_is_refused_installed_once_and_then_used(
    requirements: Path, tmp_path: Path
) -> None:
    """Preflight names the package and the command; the bundle is built once; runs use it."""
    home = tmp_path / "home"
    variables = {"MOSAIC_REQUIREMENTS": str(requirements), "MOSAIC_HOME": str(home)}
    config = tmp_path / "config.json"
    extras = {"requirements": ["base", "more"]}
    document = {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 512, "extras": extras}
    config.write_text(json.dumps(document))
    said = harness.refuse(tmp_path / "no", "--config", str(config), **variables)
    assert "more is not installed (tinypack==1.0)" in said
    assert "python -m cleanrl_worker.tools.install_extras --set more" in said

    checked = _install(requirements, home, "--check")
    assert checked.returncode == 1
    assert "tiny         missing: tinypack==1.0" in checked.stdout
    installed = _install(requirements, home, "--set", "more")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    bundles = list((home / "trainer" / "venvs").iterdir())
    assert len(bundles) == 1
    again = _install(requirements, home, "--set", "more")
    assert "nothing to do" in again.stdout
    assert list((home / "trainer" / "venvs").iterdir()) == bundles

    worker = harness.run(tmp_path / "run", "--config", str(config), **variables)
    assert worker.events()[-1]["event"] == "run_completed"
    manifest = json.loads((tmp_path / "run" / "analytics.json").read_text())
    assert manifest["requirements"] == ["base", "more"]
    assert manifest["packages"]["bundle"] == bundles[0].name
    command = json.loads((tmp_path / "run" / "provenance.json").read_text())["command"]
    assert command[0] == str(bundles[0] / "bin" / "python")
    # A bundle of more sets serves those that need fewer.
    assert "in a bundle" in _install(requirements, home, "--check", "--set", "tiny").stdout
    probe = "import tinypack, torch; print(tinypack.ANSWER)"
    done = subprocess.run([command[0], "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_an_environment_names_the_set_it_needs(requirements: Path, tmp_path: Path) -> None:
    """Whatever the algorithm: a family of environments that is not installed is told as a set."""
    tiny = (requirements / "extras" / "tiny.txt").read_text()
    (requirements / "extras" / "minigrid.txt").write_text(tiny)
    variables = {"MOSAIC_REQUIREMENTS": str(requirements), "MOSAIC_HOME": str(tmp_path / "home")}
    arguments = ("--algo", "ppo", "--env-id", "MiniGrid-Empty-8x8-v0", "--total-timesteps", "512")
    said = harness.refuse(tmp_path / "no", *arguments, "--dry-run", **variables)
    assert "install_extras --set minigrid" in said


def test_sets_are_listed_and_unknown_ones_are_named(requirements: Path, tmp_path: Path) -> None:
    """With the packages they hold and the nearest name."""
    listed = _install(requirements, tmp_path, "--list")
    assert "tinypack 1.0" in listed.stdout
    refused = _install(requirements, tmp_path, "--set", "tny")
    assert refused.returncode == 2
    assert "did you mean 'tiny'" in refused.stdout
