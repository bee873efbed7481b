"""Sweeps from the command line, with real runs of a real daemon."""

import json
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import MOSAIC, Command
from support.patience import PATIENCE_S, TIME_TO_SAVE
from support.trainer import Trainer, until

from gym_gui.models.optuna_study import read_study
from mosaic.records import RunRecord

SHORT = ("ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512", "--num-envs", "2")
RATES = ("--param", "learning-rate=log:1e-4..1e-2")


@pytest.fixture
def warm(make_trainer: Callable[..., Trainer]) -> Trainer:
    """A home whose runs begin at once."""
    return make_trainer(warm_start="true", grace_s=TIME_TO_SAVE).start()


@pytest.fixture
def mosaic(warm: Trainer) -> Command:
    """Its user."""
    return Command(warm.environment(MOSAIC_HOME=str(warm.home.root)))


def _runs(trainer: Trainer) -> list[RunRecord]:
    return trainer.client.list_runs(page_size=100)[0]


def test_a_sweep_finds_the_best_settings_and_says_how_to_use_them(
    warm: Trainer, mosaic: Command
) -> None:
    """Trials are tagged runs, the window reads the study, the printed command repeats the best."""
    flags = ("--param", "num-steps=32,64", "--trials", "3", "--parallel", "2", "--tag", "mine")
    shown = mosaic.json("sweep", *SHORT, *RATES, *flags, "--dry-run")
    assert _runs(warm) == []
    done = mosaic.json("sweep", *SHORT, *RATES, *flags)
    tried = {trial["number"]: trial["params"] for trial in done["trials"]}
    assert [tried[number] for number in range(3)] == shown["proposals"]
    values = [trial["value"] for trial in done["trials"]]
    assert values == sorted(values, reverse=True)
    assert done["best"] == done["trials"][0]
    runs = {run.run_id: run for run in _runs(warm)}
    assert len(runs) == 3
    for trial in done["trials"]:
        run = runs[trial["runs"][0]]
        assert run.tags == (f"sweep={done['sweep_id']}", f"trial={trial['number']}", "mine")
        assert run.outcome == "completed"
        config = json.loads((Path(run.run_dir) / "config.json").read_text())
        given = config["metadata"]["worker"]["config"]["extras"]["algo_params"]
        assert given == {"num_envs": 2, **trial["params"]}

    first = Path(runs[done["sweep_id"]].run_dir)
    study = read_study(first / "optuna.db")
    assert study.name == done["sweep_id"]
    assert [trial.value for trial in study.trials] == values
    listed = json.loads((first / "analytics.json").read_text())["artifacts"]["optuna"]
    assert listed == {"db": "optuna.db", "study": done["sweep_id"]}

    words = shlex.split(done["command"])
    again = mosaic.json(*words[1:])
    best = runs[done["best"]["runs"][0]]
    assert again["metrics"]["episodic_return"] == best.metrics["episodic_return"]
    shown = mosaic("sweep", "--continue", done["sweep_id"][:18])
    assert done["command"] in shown
    assert len(_runs(warm)) == 4


def test_a_trial_that_falls_behind_is_cancelled(warm: Trainer, mosaic: Command) -> None:
    """The median pruner ends the run as `mosaic cancel` would, and its slots are free."""
    words = ("climber", "--total-timesteps", "100", "--step-ms", "40", "--param", "slope=2,1,3")
    flags = ("--sampler", "grid", "--objective", "height", "--prune-after", "1")
    done = mosaic.json("sweep", *words, *flags)
    states = {trial["number"]: trial["state"] for trial in done["trials"]}
    assert states == {0: "complete", 1: "pruned", 2: "complete"}
    pruned = warm.client.get(done["trials"][-1]["runs"][0])
    assert pruned.outcome == "cancelled"
    assert pruned.tags[-1] == "pruned"
    assert (pruned.reason or "").startswith("pruned: behind the median of the others at")
    assert 20 <= pruned.progress.step < 100
    assert done["best"]["params"] == {"slope": 3}
    assert warm.free_slots() == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_goes_on_where_it_was(
    warm: Trainer, mosaic: Command, number: signal.Signals
) -> None:
    """Runs that had begun end by themselves, count, and are not repeated."""
    words = ("example", "--total-timesteps", "80", "--param", "step-ms=10..40")
    flags = ("--objective", "estimate", "--trials", "4", "--parallel", "2", "--pruner", "none")
    sweep = subprocess.Popen(
        [MOSAIC, "sweep", *words, *flags],
        env=mosaic.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(_runs(warm)) == 2, "two trials have begun")
    sweep.send_signal(number)
    printed = sweep.communicate(timeout=PATIENCE_S)[0]
    sweep_id = min(run.run_id for run in _runs(warm))
    if number == signal.SIGINT:
        assert sweep.returncode == 130
        assert f"mosaic sweep --continue {sweep_id}" in printed
        assert "train the best one again" not in printed
    begun = {run.run_id for run in _runs(warm)}

    done = mosaic.json("sweep", "--continue", "last", "--trials", "3")
    assert done["sweep_id"] == sweep_id
    assert [trial["state"] for trial in done["trials"]] == ["complete"] * 3
    used = {run_id for trial in done["trials"] for run_id in trial["runs"]}
    assert begun <= used
    assert {run.run_id for run in _runs(warm)} == used
    assert len({str(trial["params"]) for trial in done["trials"]}) == 3


def test_a_sweep_outlives_the_daemon(warm: Trainer, mosaic: Command) -> None:
    """kill -9 of the daemon: its runs go on, the sweep waits for the next one and finishes."""
    words = ("example", "--total-timesteps", "80", "--param", "step-ms=10..40")
    flags = ("--objective", "estimate", "--trials", "3", "--parallel", "2", "--json")
    sweep = subprocess.Popen(
        [MOSAIC, "sweep", *words, *flags],
        env=mosaic.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(_runs(warm)) == 2, "two trials have begun")
    warm.restart()
    done = json.loads(sweep.communicate(timeout=PATIENCE_S)[0])
    assert sweep.returncode == 0
    assert [trial["state"] for trial in done["trials"]] == ["complete"] * 3
    assert len(_runs(warm)) == 3


def test_seeds_are_averaged_and_policies_evaluated(warm: Trainer, mosaic: Command) -> None:
    """With --seeds and --objective eval a trial is worth the mean return of its policies."""
    done = mosaic.json(
        "sweep", *SHORT, *RATES, "--trials", "1", "--seeds", "2", "--objective", "eval",
        "--episodes", "2",
    )  # fmt: skip
    runs = _runs(warm)
    assert sorted(run.mode for run in runs) == ["policy_eval"] * 2 + ["train"] * 2
    assert sorted(run.seed for run in runs if run.mode == "train") == [1, 2]
    played = [run.metrics["episodic_return"] for run in runs if run.mode == "policy_eval"]
    assert done["best"]["value"] == pytest.approx(sum(played) / 2)
    parents = {run.parent_run_id for run in runs if run.mode == "policy_eval"}
    assert parents == set(done["best"]["runs"])


def test_a_sweep_that_cannot_succeed_stops_early(warm: Trainer, mosaic: Command) -> None:
    """Three failed trials are enough; the reason names the scalar that was meant."""
    words = ("example", "--total-timesteps", "2", "--param", "step-ms=1..5")
    text = mosaic("sweep", *words, "--trials", "9", "--objective", "estimat", code=1)
    assert "did you mean 'estimate'?" in text
    assert len(_runs(warm)) == 3


def test_bad_input_is_refused_before_anything_starts(warm: Trainer, mosaic: Command) -> None:
    """Names, values, objectives and ids are checked first, and the answer helps."""
    wrong = {
        "did you mean 'learning-rate'?": ("ppo", "--param", "lerning-rate=1,2"),
        "both varied": ("ppo", "--num-steps", "8", "--param", "num-steps=8,16"),
        "last, mean, max": ("ppo", *RATES, "--objective", "charts/SPS:middle"),
        "a grid needs values": ("ppo", *RATES, "--sampler", "grid"),
        "something to vary": ("ppo",),
        "did you mean 'ppo'?": ("pp0", *RATES),
        "did you mean 'CartPole-v1'?": ("ppo", "--env-id", "CartPole-v9", *RATES),
        "name an algorithm": RATES,
        "only --trials and --parallel": ("--continue", "last", "--seeds", "2"),
    }
    for words, flags in wrong.items():
        assert words in mosaic("sweep", *flags, code=2)
    assert _runs(warm) == []
    ordinary = warm.submit("short")
    warm.ended(ordinary)
    assert "belongs to no sweep" in mosaic("sweep", "--continue", ordinary, code=2)


def test_the_secrets_of_a_sweep_stay_in_their_store(warm: Trainer, mosaic: Command) -> None:
    """Every run gets the key it needs; study, configurations and logs name it by reference."""
    # Nothing is sent: the key has to be kept all the same.
    warm.restart(WANDB_MODE="offline")
    # In two parts: the record of a run has the uncommitted changes of the code, this file's too.
    mosaic.environment["WANDB_API_KEY"] = canary = "CANARY" + "0123456789abcdef"
    mosaic("sweep", *SHORT, "--param", "num-steps=32,64", "--sampler", "grid", "--wandb")
    runs = _runs(warm)
    assert len(runs) == 2
    kept = {path.stem for path in warm.home.secrets.iterdir() if canary in path.read_text()}
    assert kept == {run.run_id for run in runs}
    holders = {
        path.parent
        for path in warm.home.root.rglob("*")
        if path.is_file() and canary.encode() in path.read_bytes()
    }
    assert holders == {warm.home.secrets}
