"""What is believed of a run on another machine: no engine's word alone ends it."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from mosaic.config.settings import Settings
from mosaic.config.sites import SiteName, read_site
from mosaic.records.run import Outcome
from mosaic.runs.curve_cutting import cut_after
from mosaic.runs.directory import RunDirectory
from mosaic.runs.metric_writer import MetricWriter
from mosaic.runs.metrics import MetricReader
from mosaic.runs.supervised import process_place
from mosaic.system.processes import ProcessKey
from mosaic.trainer.core.decisions import Now, decide
from mosaic.trainer.core.evidence import (
    ENDED,
    LEASE_STALE_S,
    QUEUED,
    RUNNING,
    SILENT,
    UNKNOWN,
    Alive,
    NeverBegan,
    Over,
    Seen,
    Silent,
    Taken,
    Waiting,
    weigh,
)
from mosaic.trainer.core.folding import evolve
from mosaic.trainer.core.instructions import Archive, Withdraw
from mosaic.trainer.core.states import Event, Run, State
from mosaic.trainer.core.stimuli import (
    CancelRequested,
    DeadlinePassed,
    JobPlaced,
    LaunchUndone,
    MachineTaken,
)
from mosaic.trainer.loop.observer import observe
from mosaic.trainer.loop.watch import Watch
from mosaic.trainer.sites.local import LocalSite
from mosaic.trainer.sites.slurm import _taken
from mosaic.trainer.sites.slurm_queue import SlurmQueue
from mosaic.trainer.sites.slurm_words import FORMAT, Job, read_line
from mosaic.trainer.storage.registry import Vitals

LOST_AFTER_S = 100.0
LONG, SHORT = 1000.0, 1.0
# A worker that trains: its lease changes, its job runs.
FINE = Seen(exit=None, began=True, quiet_s=SHORT, word=RUNNING, word_s=LONG, detail="so it is")
FINISHED = {"code": 0, "signal": None}
TERMINATED = {"code": 143, "signal": None}
NOW = Now(1000.0, 1000.0)


@pytest.mark.parametrize("word", [QUEUED, RUNNING, ENDED, UNKNOWN, SILENT])
def test_a_fresh_lease_means_alive_whatever_the_engine_says(word: str) -> None:
    """An engine that has forgotten, buried or requeued a job does not end a run that beats."""
    assert weigh(replace(FINE, word=word, taken=True), LOST_AFTER_S) == Alive()


@pytest.mark.parametrize("word", [QUEUED, RUNNING, ENDED, UNKNOWN, SILENT])
def test_an_exit_record_settles(word: str) -> None:
    """A worker that ended by itself has ended, also where the engine says that it runs."""
    seen = replace(FINE, exit=FINISHED, word=word, quiet_s=LONG)
    assert weigh(seen, LOST_AFTER_S) == Over(FINISHED)


@pytest.mark.parametrize("word", [QUEUED, RUNNING, SILENT])
def test_silence_alone_never_loses_a_run(word: str) -> None:
    """A stale lease without the engine's last word is shown, and the run stays."""
    assert weigh(replace(FINE, quiet_s=LONG, word=word), LOST_AFTER_S) == Silent("so it is")


@pytest.mark.parametrize("word", [ENDED, UNKNOWN])
def test_a_run_is_lost_when_both_have_been_so_for_long(word: str) -> None:
    """Stale lease and terminal word, each for `lost_after_s`; a moment less is not enough."""
    over = replace(FINE, quiet_s=LOST_AFTER_S, word_s=LOST_AFTER_S, word=word)
    assert isinstance(weigh(over, LOST_AFTER_S), Over)
    for sooner in (replace(over, quiet_s=LOST_AFTER_S - 1), replace(over, word_s=LOST_AFTER_S - 1)):
        assert weigh(sooner, LOST_AFTER_S) == Silent("so it is")


def test_a_machine_that_was_taken_away_is_no_end() -> None:
    """A preempted run goes on: after its exit record at once, after a silent end a little later."""
    taken = replace(FINE, word=QUEUED, taken=True)
    assert weigh(replace(taken, exit=TERMINATED), LOST_AFTER_S) == Taken("so it is")
    assert weigh(replace(taken, quiet_s=LEASE_STALE_S + 1), LOST_AFTER_S) == Taken("so it is")


def test_a_worker_that_was_terminated_waits_for_the_engines_reason() -> None:
    """Exit 143 may be a preemption: it is not called a failure before the engine has spoken."""
    ended = replace(FINE, exit=TERMINATED)
    assert weigh(replace(ended, word_s=SHORT), LOST_AFTER_S) == Alive()
    cancelled = replace(ended, word=ENDED, stopped=Outcome.CANCELLED)
    assert weigh(cancelled, LOST_AFTER_S) == Over(TERMINATED, "so it is", Outcome.CANCELLED)
    # Our own wish needs no one's word.
    assert weigh(replace(ended, asked=True, word=SILENT), LOST_AFTER_S) == Over(TERMINATED)


def test_before_the_start() -> None:
    """A job waits with its reason; only one that was forgotten for long is placed again."""
    waits = replace(FINE, began=False, word=QUEUED)
    assert weigh(waits, LOST_AFTER_S) == Waiting("so it is")
    forgotten = replace(waits, word=UNKNOWN, word_s=LOST_AFTER_S)
    assert weigh(forgotten, LOST_AFTER_S) == NeverBegan("so it is", again=True)
    assert weigh(replace(forgotten, word_s=SHORT), LOST_AFTER_S) == Waiting("so it is")
    failed = replace(waits, word=ENDED, word_s=LONG)
    assert weigh(failed, LOST_AFTER_S) == NeverBegan("so it is", again=False)


# ---------------------------------------------------------------- what is decided then

_TRAINS = Run(
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    state=State.EXEC,
    site="slurm:debug",
    job="7",
    slots=("slurm:debug",),
    pid=5,
)


def _after(run: Run, stimulus: MachineTaken | JobPlaced) -> Run:
    for what in decide(run, stimulus, NOW).events:
        run = evolve(run, Event(run.version + 1, 1000.0, 1000.0, what))
    return run


def test_a_requeued_run_is_queued_as_the_next_attempt() -> None:
    """It is the same run and job; nothing of the last attempt's worker is left in its row."""
    again = _after(_TRAINS, MachineTaken("preempted"))
    assert again.queued
    assert (again.state, again.attempt, again.job) == (State.INIT, 2, "7")
    assert (again.pid, again.slots, again.outcome) == (0, (), "")
    # Told twice, it is not taken twice.
    assert decide(again, MachineTaken("preempted"), NOW).events == ()


def test_a_run_that_was_to_stop_is_not_begun_again() -> None:
    """A cancelled run whose job is requeued ends, and its job is taken back."""
    stopping = replace(_TRAINS, stopping="cancelled", stop_reason="by the user")
    decision = decide(stopping, MachineTaken("preempted"), NOW)
    assert [what.kind for what in decision.events] == ["settled"]
    assert decision.instructions == (Withdraw(), Archive(("slurm:debug",)))


def test_a_placed_run_is_taken_back_when_it_is_cancelled() -> None:
    """The user does not wait for the engine's queue, also not when the job's number comes late."""
    placed = replace(_TRAINS, state=State.INIT, pid=0)
    assert Withdraw() in decide(placed, CancelRequested(5.0), NOW).instructions
    late = replace(placed, job="", stopping="cancelled")
    assert decide(late, JobPlaced("8"), NOW).instructions == (Withdraw(),)
    settled = decide(replace(placed, stopping="cancelled"), LaunchUndone(), NOW)
    assert [what.kind for what in settled.events] == ["settled"]


# ---------------------------------------------------------------- SLURM's words


def _line(*cells: str) -> str:
    return "".join(cell.ljust(width) for cell, (_, width) in zip(cells, FORMAT, strict=True))


def test_a_line_of_squeue_is_read_by_its_columns() -> None:
    """A reason may hold commas and spaces."""
    reason = "ReqNodeNotAvail, UnavailableNodes:n1"
    job = read_line(_line("812", "mosaic-X", "PENDING", reason, "N/A", "2", ""))
    assert job == Job("812", "mosaic-X", "PENDING", reason, "N/A", 2)
    assert job.sentence() == "SLURM job 812: waits for a node that is not available now"
    assert read_line("") is None


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (Job("1", "", "PENDING", "Resources"), "SLURM job 1: waits for resources"),
        (
            Job("1", "", "PENDING", "JobHeldUser"),
            "SLURM job 1: is held; release it: scontrol release 1",
        ),
        (
            Job("1", "", "PENDING", "QOSMaxJobsPerUserLimit"),
            "SLURM job 1: waits: a limit of its account is reached (QOSMaxJobsPerUserLimit)",
        ),
        (Job("1", "", "PENDING", "NewReason"), "SLURM job 1: waits (NewReason)"),
        (
            Job("1", "", "PENDING", "Resources", "2020-02-03T14:10:00"),
            "SLURM job 1: waits for resources, about 03 Feb 14:10",
        ),
        (
            Job("1", "", "PENDING", "Resources", f"{date.today() + timedelta(365)}T14:10:00"),
            "SLURM job 1: waits for resources",
        ),
        (
            Job("1", "", "PENDING", "launch failed requeued held", "2020-02-03T14:10:00"),
            "SLURM job 1: is held after its start failed; run: scontrol release 1",
        ),
        (Job("1", "", "PREEMPTED"), "SLURM job 1 was preempted by other work"),
        (Job("1", "", "OUT_OF_MEMORY"), "SLURM job 1 ended (out of memory)"),
        (Job("1", "", "RUNNING", nodes="n1"), "SLURM job 1 runs on n1"),
    ],
    ids=lambda value: value.state + value.reason if isinstance(value, Job) else "",
)
def test_what_slurm_says_in_plain_words(job: Job, sentence: str) -> None:
    """People read why a run waits without a list of SLURM's codes."""
    assert job.sentence() == sentence


def test_an_answer_from_before_the_start_takes_no_machine_away(tmp_path: Path) -> None:
    """A controller that dies with the node leaves the run unreachable, not queued a second time."""
    queue = SlurmQueue(5.0)
    queue._jobs = {"1": Job("1", "mosaic-r", "PENDING")}
    watch = Watch.of(RunDirectory(tmp_path), Vitals())
    watch.keys = [ProcessKey(1, 1, "boot")]
    watch.lease_mono = 100.0
    queue._answered = 99.0
    assert not _taken(watch, queue.opinion("1", "mosaic-r", 101.0))
    queue._answered = 100.5
    assert _taken(watch, queue.opinion("1", "mosaic-r", 101.0))


def test_names_of_sites() -> None:
    """A misspelled site is refused with the nearest name."""
    assert read_site("slurm:gpu,debug") == SiteName("slurm", "gpu,debug")
    for wrong in ("slrum", "local:x", "slurm:", "slurm:a b"):
        with pytest.raises(ValueError, match="is not a site"):
            read_site(wrong)


@pytest.mark.parametrize("record", ["[]", '{"pid": 1}', '{"host": 7, "job": {}}', "no json"])
def test_a_record_that_makes_no_sense_names_no_place(tmp_path: Path, record: str) -> None:
    """A worker that writes nonsense over its supervisor's record harms no list of runs."""
    directory = RunDirectory(tmp_path)
    directory.supervisor.write_text(record)
    assert process_place(directory) == ("", "")


def test_a_name_that_cannot_be_sent_is_replaced(tmp_path: Path) -> None:
    """Half a surrogate pair can be stored by no database and sent by no protocol."""
    directory = RunDirectory(tmp_path)
    directory.supervisor.write_text('{"host": "n\\ud800", "job": "7"}')
    assert process_place(directory) == ("n?", "7")


def test_curves_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    """A run that continues in the same run draws no step twice; evaluations count episodes."""
    with MetricWriter(tmp_path) as writer:
        for step in (10, 20, 30):
            writer.add("charts/return", step, float(step))
            writer.add("eval/return", step, float(step))
    cut_after(tmp_path, 20)
    reader = MetricReader(tmp_path)
    assert list(reader.read("charts/return")["step"]) == [10, 20]
    assert list(reader.read("eval/return")["step"]) == [10, 20, 30]
    cut_after(tmp_path, -1)
    assert list(reader.read("charts/return")["step"]) == []
    assert list(reader.read("eval/return")["step"]) == []


def test_the_point_of_an_interruption_is_cut_too(tmp_path: Path) -> None:
    """A worker that is asked to end stores its return between two marks; no whole run has that."""
    with MetricWriter(tmp_path) as writer:
        for step in (2000, 2010, 2018):
            writer.add("charts/episodic_return", step, 1.0)
            writer.add("losses/value_loss", step, 1.0)
    reader = MetricReader(tmp_path)
    # 20,000 steps: a mark every 10 steps.
    cut_after(tmp_path, 2019, 20_000)
    assert list(reader.read("charts/episodic_return")["step"]) == [2000, 2010]
    assert list(reader.read("losses/value_loss")["step"]) == [2000, 2010, 2018]
    cut_after(tmp_path, 2019, 20_000)
    assert list(reader.read("charts/episodic_return")["step"]) == [2000, 2010], "and only once"


class _AliveSite(LocalSite):
    """Where every run is alive."""

    def __init__(self) -> None:
        """Needs no executor: nothing is started."""

    def news(self, run: Run, watch: Watch, now: Now) -> Alive:
        return Alive()


def test_each_attempt_has_its_own_time_to_exit(tmp_path: Path) -> None:
    """A run that was placed again after its first worker had said its end is not told to end as
    soon as its second worker completes."""
    watch = Watch.of(RunDirectory(tmp_path), Vitals())
    settings = Settings(grace_s=5.0)
    began = watch.watched_mono
    ended = Run("R", state=State.EXEC, pid=1, launched_mono=began, completion_seen=True)
    again = replace(ended, completion_seen=False, attempt=2)

    def told_to_end(run: Run, after_s: float) -> bool:
        watch.heartbeat_mono = began + after_s
        now = Now(wall=0.0, mono=began + after_s)
        found = observe(run, watch, settings, now, _AliveSite())
        return any(isinstance(one, DeadlinePassed) and one.kind == "exit" for one in found)

    assert not told_to_end(ended, 1.0)
    assert not told_to_end(again, 30.0)
    assert not told_to_end(replace(again, completion_seen=True), 60.0)
    assert told_to_end(replace(again, completion_seen=True), 66.0)
