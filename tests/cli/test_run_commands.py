"""Training, looking at runs and handling them from the command line."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from cli.conftest import MOSAIC, Command

BAD_CONFIGS = sorted((Path(__file__).parents[1] / "data" / "bad_configs").iterdir())
PUBLIC_RECORD = {
    "run_id",
    "run_name",
    "worker",
    "algo",
    "env_id",
    "seed",
    "state",
    "outcome",
    "reason",
    "wait_reason",
    "pid",
    "exit_code",
    "slots",
    "progress",
    "metrics",
    "created_at",
    "started_at",
    "finished_at",
    "last_heartbeat",
    "run_dir",
    "checkpoints",
    "capabilities",
}
TRAIN = ("train", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "2048")


def test_train_follows_the_run_and_leaves_everything_behind(mosaic: Command) -> None:
    """`mosaic train` exits 0 when the run completed; its record, logs and files are there."""
    printed = mosaic(*TRAIN, "--num-envs", "2", "--no-anneal-lr", "--tag", "first")
    assert "completed" in printed
    record = mosaic.json("show", "last")
    assert set(record) >= PUBLIC_RECORD
    assert (record["state"], record["outcome"], record["exit_code"]) == ("TERM", "completed", 0)
    assert record["progress"]["step"] == 2048
    assert record["tags"] == ["first"]
    assert {item["kind"] for item in record["checkpoints"]} == {"policy", "full"}
    directory = Path(record["run_dir"])
    manifest = json.loads((directory / "analytics.json").read_text())
    assert manifest["artifacts"]["tensorboard"]["enabled"]
    provenance = json.loads((directory / "provenance.json").read_text())
    assert "--num-envs" in provenance["command"]
    for name in ("config.json", "events.jsonl", "exit.json", "supervisor.json"):
        assert (directory / name).exists()
    assert "EXEC" in mosaic("show", record["run_id"][:20], "--events")


def test_detach_answers_with_the_id_alone(mosaic: Command) -> None:
    """`--detach --json` prints {"run_id": …} and returns while the run goes on."""
    answer = mosaic.json(*TRAIN, "--detach")
    assert set(answer) == {"run_id"}
    mosaic("watch", answer["run_id"])
    assert mosaic.json("show", answer["run_id"])["outcome"] == "completed"


def test_wrong_names_are_refused_with_the_nearest_one(mosaic: Command) -> None:
    """A mistyped algorithm, environment or flag exits 2, names the nearest, and starts nothing."""
    assert "did you mean 'ppo'" in mosaic("train", "pppo", code=2)
    assert "'CartPole-v1'" in mosaic("train", "ppo", "--env-id", "CartPol-v1", code=2)
    assert "did you mean '--num-envs'" in mosaic(*TRAIN, "--num-env", "2", code=2)
    assert "takes a whole number" in mosaic(*TRAIN, "--num-envs", "two", code=2)
    assert "continuous" in mosaic("train", "dqn", "--env-id", "Pendulum-v1", code=2)
    assert mosaic.json("runs")["total"] == 0


def test_a_secret_on_the_command_line_is_refused(mosaic: Command) -> None:
    """A key typed as a flag would stand in the process list; it is refused, not taken."""
    printed = mosaic(*TRAIN, "--wandb-api-key", "CANARY", code=2)
    assert "WANDB_API_KEY" in printed
    assert "CANARY" not in printed


@pytest.mark.parametrize("path", BAD_CONFIGS, ids=lambda path: path.name)
def test_malformed_files_list_all_their_problems(mosaic: Command, path: Path) -> None:
    """`mosaic submit` of a malformed file exits 2, says what is wrong, and creates no run."""
    printed = mosaic("submit", str(path), code=2)
    assert "problem" in printed
    assert "[CFG" in printed or "[LOG" in printed
    assert mosaic.json("runs")["total"] == 0


def test_submit_with_a_key_is_idempotent_and_without_one_is_not(
    mosaic: Command, tmp_path: Path
) -> None:
    """The same key gives the same run; the same config without a key runs again."""
    path = tmp_path / "run.json"
    worker = {"type": "example", "config": {"total_timesteps": 5}}
    path.write_text(json.dumps({"artifacts": {}, "metadata": {"worker": worker}}))
    first = mosaic.json("submit", str(path), "--key", "once")["run_id"]
    assert mosaic.json("submit", str(path), "--key", "once")["run_id"] == first
    assert mosaic.json("submit", str(path))["run_id"] != first
    assert mosaic.json("submit", str(path), "--follow")["outcome"] == "completed"


def test_a_pause_that_is_not_heard_ends_with_a_sentence(mosaic: Command, trainer: Trainer) -> None:
    """A worker that cannot hear it, as after a changed token, keeps no one waiting for ever."""
    run_id = trainer.stepping("saves_on_request", extras={"claims_to_pause": True}).run_id
    said = mosaic("pause", run_id, "--timeout", "0.5", code=1)
    assert "has not paused within 0.5 s" in said
    assert f"mosaic cancel {run_id}" in said


def test_pause_resume_cancel(mosaic: Command, trainer: Trainer) -> None:
    """A run stands still, goes on and ends on command; a second cancel changes nothing."""
    run_id = mosaic.json("train", "example", "--total-timesteps", "1e6", "--detach")["run_id"]
    trainer.wait_for(run_id, "EXEC")
    assert mosaic.json("pause", run_id)["state"] == "PAUSE"
    assert mosaic.json("resume", run_id)["state"] == "EXEC"
    assert mosaic.json("cancel", run_id)["outcome"] == "cancelled"
    assert mosaic.json("cancel", run_id)["outcome"] == "cancelled"
    assert "has ended" in mosaic("pause", run_id, code=2)


def test_interrupting_the_follower_leaves_the_run_alone(mosaic: Command, trainer: Trainer) -> None:
    """Ctrl-C while following exits 130; the run goes on."""
    follower = subprocess.Popen(
        [MOSAIC, "train", "example", "--total-timesteps", "1e6"],
        env=mosaic.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    run_id = follower.stdout.readline().split()[0]
    trainer.wait_for(run_id, "EXEC")
    follower.send_signal(signal.SIGINT)
    rest, _ = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == 130
    assert "the run continues" in rest
    assert mosaic.json("show", run_id)["state"] == "EXEC"
    mosaic("cancel", run_id)


def test_a_failed_run_tells_why(mosaic: Command, trainer: Trainer) -> None:
    """Following a run that fails exits 1 with the reason and the last lines it wrote."""
    path = trainer.home.root / "fails.json"
    path.write_text(json.dumps(trainer.config("crash_at_the_end")))
    printed = mosaic("submit", str(path), "--follow", code=1)
    assert "failed" in printed
    assert "mosaic logs" in printed


def test_logs_can_be_searched_and_followed(mosaic: Command) -> None:
    """`mosaic logs` prints what the run wrote; --grep keeps matching lines; -f ends with it."""
    run_id = mosaic.json("train", "example", "--total-timesteps", "200", "--detach")["run_id"]
    followed = mosaic("logs", run_id, "-f", "--lifecycle")
    assert "run_completed" in followed
    matching = mosaic("logs", run_id, "--lifecycle", "--grep", "run_(started|completed)")
    assert len(matching.splitlines()) == 2
    assert mosaic("logs", run_id) == ""
    assert "regular expression" in mosaic("logs", run_id, "--grep", "(", code=2)


def test_clone_delete_restore(mosaic: Command) -> None:
    """A run is submitted again with another seed, deleted with undo, and deleted for good."""
    first = mosaic.json("train", "example", "--total-timesteps", "5")["run_id"]
    second = mosaic.json("clone", first, "--seed", "7", "--follow")
    assert (second["seed"], second["parent_run_id"]) == (7, first)
    assert f"mosaic restore {first}" in mosaic("delete", first)
    assert [run["run_id"] for run in mosaic.json("runs")["runs"]] == [second["run_id"]]
    assert [run["run_id"] for run in mosaic.json("runs", "--deleted")["runs"]] == [first]
    mosaic("restore", first)
    assert mosaic.json("runs")["total"] == 2
    directory = Path(mosaic.json("show", first)["run_dir"])
    mosaic("delete", first, "--purge")
    assert not directory.exists()
    assert "no run" in mosaic("show", first, code=2)


def test_runs_are_paged_filtered_and_sorted(mosaic: Command) -> None:
    """A long list comes in pages; filters and text search narrow it."""
    for number in range(3):
        mosaic("train", "example", "--total-timesteps", "3", "--name", f"run {number}")
    first = mosaic.json("runs", "--limit", "2")
    assert [run["run_name"] for run in first["runs"]] == ["run 2", "run 1"]
    second = mosaic.json("runs", "--limit", "2", "--page", first["next_page"])
    assert [run["run_name"] for run in second["runs"]] == ["run 0"]
    assert mosaic.json("runs", "--text", "run 1")["total"] == 1
    assert mosaic.json("runs", "--outcome", "failed")["total"] == 0
    names = [run["run_name"] for run in mosaic.json("runs", "--sort", "run_name")["runs"]]
    assert names == ["run 0", "run 1", "run 2"]
    assert "sorted" in mosaic("runs", "--sort", "colour", code=2)


def test_ambiguous_and_unknown_runs(mosaic: Command) -> None:
    """A prefix of several runs, an unknown id and nonsense each get a sentence of their own."""
    for _ in range(2):
        mosaic("train", "example", "--total-timesteps", "3")
    assert "fits several runs" in mosaic("show", "0", code=2)
    assert "no run" in mosaic("show", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", code=2)
    assert "not a run id" in mosaic("show", "../../etc", code=2)


def test_workers_and_their_algorithms_are_listed(mosaic: Command) -> None:
    """Workers are listed with what they are; algorithms one a line."""
    listed = {worker["type"]: worker for worker in mosaic.json("workers")}
    assert listed["cleanrl"]["capabilities"]["provides_fast_analytics"]
    names = mosaic("workers", "--algos", "cleanrl").split()
    assert {"ppo", "dqn", "c51", "sac_continuous_action"} <= set(names)
    assert "did you mean 'cleanrl'" in mosaic("workers", "--algos", "cleanrll", code=2)


def test_watching_all_runs_streams_changes(mosaic: Command) -> None:
    """`mosaic watch --json` prints a snapshot and then every change, one a line."""
    watcher = subprocess.Popen(
        [MOSAIC, "watch", "--json"], env=mosaic.environment, stdout=subprocess.PIPE, text=True
    )
    assert watcher.stdout is not None
    assert json.loads(watcher.stdout.readline())["kind"] == "snapshot_end"
    run_id = mosaic.json("train", "example", "--total-timesteps", "5", "--detach")["run_id"]
    seen = []

    def ended() -> bool:
        change = json.loads(watcher.stdout.readline())
        seen.append(change["sequence"])
        return change["kind"] == "run" and change["run"]["state"] == "TERM"

    until(ended, f"{run_id} ends")
    assert seen == sorted(seen)
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=PATIENCE_S)
    assert watcher.returncode == 130


def test_configurations_are_compared_over_their_seeds(mosaic: Command, trainer: Trainer) -> None:
    """`mosaic compare` groups runs, prints tables, JSON and LaTeX, and helps with wrong names."""
    for steps in (20, 40):
        for seed in (1, 2, 3):
            worker = {"total_timesteps": steps, "seed": seed, "algo": "darts"}
            document = {"type": "example", "config": worker}
            config = {"artifacts": {}, "metadata": {"worker": document, "tags": ["compared"]}}
            trainer.client.submit(config)
    runs = [run.run_id for run in trainer.client.list_runs()[0]]
    scores = {trainer.ended(run_id).metrics["estimate"] for run_id in runs}
    found = mosaic.json("compare", *runs, "--metric", "estimate")
    assert [cell["group"] for cell in found["cells"]] == [
        "darts total_timesteps=40",
        "darts total_timesteps=20",
    ]
    assert {run["score"] for cell in found["cells"] for run in cell["runs"]} == scores
    assert mosaic.json("compare", "--text", "compared", "--metric", "estimate") == found
    printed = mosaic("compare", *runs, "--metric", "estimate", "--target", "3", "--stat", "iqm")
    assert "STEPS TO TARGET" in printed
    assert "3 of 3 seeds" in printed
    latex = mosaic("compare", *runs, "--metric", "estimate", "--latex")
    assert r"darts total\_timesteps=40" in latex
    assert "did you mean 'estimate'" in mosaic("compare", *runs, "--metric", "estimat", code=2)
    assert "name the runs" in mosaic("compare", code=2)
    assert "ENV=LOW..HIGH" in mosaic("compare", *runs, "--scale", "A=3", code=2)


def test_an_experiment_is_handled_as_a_whole(
    mosaic: Command, trainer: Trainer, tmp_path: Path
) -> None:
    """Submitted once, extended, prioritised, cancelled, exported and deleted by its name."""
    file = tmp_path / "pi.toml"
    file.write_text(
        'algorithms = ["example"]\nseeds = 2\ntotal_timesteps = 20\n[grid]\nstep_ms = [0, 1]\n'
    )
    assert "2 configurations × 2 seeds = 4 runs" in mosaic(
        "experiment", "run", str(file), "--dry-run"
    )
    done = mosaic.json("experiment", "run", str(file), "--wait")
    assert (done["completed"], done["seeds"], done["fraction"]) == (4, [1, 2], 1.0)
    again = mosaic("experiment", "run", str(file))
    assert "0 runs submitted, 4 were there" in again
    assert len(mosaic.json("experiment", "add-seeds", "pi", "1")["added"]) == 2
    for run in mosaic.json("experiment", "show", "pi")["runs"]:
        trainer.ended(run["run_id"])
    found = mosaic.json("compare", "experiment=pi", "--metric", "estimate")
    assert [len(cell["runs"]) for cell in found["cells"]] == [3, 3]
    assert "6 runs in" in mosaic("experiment", "export", "pi", "-o", str(tmp_path / "pi.tar.gz"))
    assert "6 of 6 runs" in mosaic("experiment", "delete", "pi")
    assert "no experiments yet" in mosaic("experiment", "list")

    flags = ("--algo", "example", "--total-timesteps", "1e9", "--seeds", "3", "--step-ms", "5")
    mosaic("experiment", "run", "long", *flags)
    assert "did you mean 'long'" in mosaic("experiment", "show", "lang", code=2)
    assert "have not ended" in mosaic("experiment", "delete", "long", code=2)
    assert "3 of 3 runs have priority 7" in mosaic("experiment", "priority", "long", "7")
    members = mosaic.json("experiment", "show", "long")["runs"]
    assert {run["priority"] for run in members} == {7}
    assert "3 of 3 runs cancelled" in mosaic("experiment", "cancel", "long")
    for run in members:
        assert trainer.ended(run["run_id"]).outcome == "cancelled"
