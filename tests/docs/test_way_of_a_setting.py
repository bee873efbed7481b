"""One setting goes from the command line to the algorithm on the way that the page describes."""

import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (\d+) \| (\w+) \| `([\w/.]+)` \| `([\w.]+)` \| (.+) \|$", re.MULTILINE)
HOPS = _ROW.findall((ROOT / "docs" / "architecture.md").read_text())
MOSAIC = str(Path(sys.executable).with_name("mosaic"))
# A number that no script has as a default.
VALUE = "0.4242"
# Every interpreter of the test notes what it parses and which source it reads.
WITNESS = """
import json, os, re, sys

_folder, _busy = os.environ["WAY_FOLDER"], []
# As a key with its value it is in the configuration only, not in commands or environments.
_value = re.compile(r'"vf_coef": *0.4242')

def _note(kind):
    _busy.append(kind)
    with open(f"{_folder}/{os.getpid()}", "a") as file:
        file.write(f"{kind} {' '.join(getattr(sys, 'argv', []))}\\n")
    _busy.pop()

def _loads(text, *args, _real=json.loads, **kwargs):
    raw = text if isinstance(text, str) else bytes(text).decode(errors="replace")
    if _value.search(raw):
        _note("parsed")
    return _real(text, *args, **kwargs)

def _hook(event, arguments):
    # Python opens the file too, to run it (importlib) and for the lines of a stack (tokenize).
    if event == "open" and not _busy and str(arguments[0]).endswith("cleanrl/ppo.py"):
        reader = sys._getframe(1).f_code.co_filename
        if "importlib" not in reader and "tokenize" not in reader:
            _note("source")

json.loads = _loads
sys.addaudithook(_hook)
"""


def test_the_table_is_the_way() -> None:
    """Hops are numbered, go through all four processes in order, and begin and end as promised."""
    assert [int(hop) for hop, *_ in HOPS] == list(range(1, len(HOPS) + 1))
    processes = [process for _, process, *_ in HOPS]
    assert list(dict.fromkeys(processes)) == ["command", "daemon", "W", "T"]
    assert sorted(processes, key=["command", "daemon", "W", "T"].index) == processes
    assert "--num-envs 8" in HOPS[0][4]
    assert "Args.num_envs" in HOPS[-1][4]


@pytest.mark.parametrize(("hop", "file", "function"), [(hop[0], hop[2], hop[3]) for hop in HOPS])
def test_every_function_of_the_way_exists(hop: str, file: str, function: str) -> None:
    """The file is there and defines the function."""
    assert (ROOT / file).is_file(), hop
    parts = file.removesuffix(".py").split("/")
    module = ".".join(parts[2:] if parts[0] == "workers" else parts)
    found: object = importlib.import_module(module)
    for name in function.split("."):
        found = getattr(found, name)
    callback = getattr(found, "callback", found)
    assert callable(callback)


@pytest.mark.parametrize("warm", ["false", "true"])
def test_each_process_parses_once_and_reads_the_source_once(
    make_trainer: Callable[..., Trainer], tmp_path: Path, warm: str
) -> None:
    """In a real run, forked or fresh: no process parses the configuration twice, none reads the
    algorithm's source twice, and the algorithm gets the value that was typed."""
    site, notes = tmp_path / "witness", tmp_path / "notes"
    site.mkdir()
    notes.mkdir()
    (site / "sitecustomize.py").write_text(WITNESS)
    trainer = make_trainer(warm_start=warm)
    path = f"{site}:{trainer.environment()['PYTHONPATH']}"
    watched = {"PYTHONPATH": path, "WAY_FOLDER": str(notes)}
    trainer.start(**watched)
    words = ["train", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "2048"]
    command = subprocess.run(
        [MOSAIC, *words, "--num-envs", "8", "--vf-coef", VALUE, "--json"],
        env=trainer.environment(MOSAIC_HOME=str(trainer.home.root), **watched),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert command.returncode == 0, command.stdout + command.stderr
    run_id = trainer.client.get("last").run_id
    told = json.loads((trainer.directory(run_id).path / "provenance.json").read_text())["command"]
    assert told[told.index("--num-envs") + 1] == "8"
    seen = {file.name: Counter(file.read_text().splitlines()) for file in notes.iterdir()}
    for pid, counts in seen.items():
        assert max(counts.values()) == 1, (pid, counts)
    everything = Counter(line.split(" ")[0] for counts in seen.values() for line in counts)
    # The daemon, the worker's check in its helper, W and T parse; the command builds. A forked T
    # has W's knowledge of the source.
    assert everything["parsed"] == 4, seen
    assert everything["source"] == (3 if warm == "true" else 4), seen


def test_the_two_names_of_a_stored_configuration_are_one_file(trainer: Trainer) -> None:
    """`configs/config-<ULID>.json` and the run's `config.json` can never differ."""
    run_id = trainer.submit("short")
    stored = trainer.home.configs / f"config-{run_id}.json"
    assert stored.samefile(trainer.directory(run_id).config)
    trainer.ended(run_id)
