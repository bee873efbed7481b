"""Hundreds of runs over the nodes of a real SLURM or Ray cluster on this machine.

    python benchmarks/clusters.py slurm [--nodes 4] [--runs 200] [--at-once 200] [--queued 2000]
    python benchmarks/clusters.py ray   [--nodes 4] [--runs 200] [--at-once 24]  [--queued 2000]

Cluster, daemon, supervisors and agents are the real ones; each run is the example worker, which
says something once a second. All runs are submitted, the cluster is opened and fills, the daemon is
measured for a while with all others waiting, and killed. At last `--runs` of them have run, and all
others are cancelled. It fails if a run began twice, was lost, or left a process or a job behind.
Writes its part of `benchmarks/results/clusters.json`.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
# The clusters are those of the tests.
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY)]

from support import ray_cluster, slurm  # noqa: E402
from support.trainer import Trainer, until  # noqa: E402

from mosaic.client import TrainerClient  # noqa: E402
from mosaic.config import build  # noqa: E402
from mosaic.config.json_types import JsonValue  # noqa: E402
from mosaic.connect.endpoint import find_endpoint  # noqa: E402
from mosaic.errors import MosaicError  # noqa: E402
from mosaic.records import Outcome, RunRecord  # noqa: E402
from mosaic.system.processes import cpu_ticks, stat_fields  # noqa: E402

# Only ends a measurement that would never end.
PATIENCE_S = 3600.0
_TICKS = os.sysconf("SC_CLK_TCK")
_DATA_SEGMENTS = re.compile(r"data_segs_(in|out):(\d+)")


@dataclass
class Figures:
    """What one cluster has shown."""

    command: str
    machine: str
    load_before: float
    nodes: int
    at_once: int
    submissions_a_second: float = 0.0
    filled_after_s: float = 0.0
    waiting: int = 0
    daemon_percent_of_a_core: float = 0.0
    helpers_percent_of_a_core: float = 0.0
    daemon_resident_mb: float = 0.0
    changes_a_second: float = 0.0
    segments_in_a_second: float = 0.0
    segments_out_a_second: float = 0.0
    answer_ms_median: float = 0.0
    answer_ms_most: float = 0.0
    all_heard_after_kill_s: float = 0.0
    runs_begun: int = 0
    runs_by_node: dict[str, int] = field(default_factory=dict)
    cancelled_a_second: float = 0.0


# ------------------------------------------------------------ the clusters


@dataclass
class Site:
    """A cluster that takes runs and begins none before it is opened.

    Attributes:
        name: What runs are sent to.
        open: Lets its nodes take work.
        left: What is still in its queue or on its nodes.
    """

    name: str
    open: Callable[[], object]
    left: Callable[[], object]


@contextmanager
def slurm_site(root: Path, nodes: int, at_once: int) -> Iterator[Site]:
    """A SLURM cluster; its partition is down at first."""
    names = [f"n{number + 1}" for number in range(nodes)]
    made = slurm.SlurmCluster(root / "slurm", names, at_once // nodes)
    change = ("scontrol", "update", "partitionname=debug")
    with slurm.running(made):
        made.command(*change, "state=down")
        yield Site(
            "slurm:debug",
            open=lambda: made.command(*change, "state=up"),
            left=lambda: made.command("squeue", "-h"),
        )


@contextmanager
def ray_site(root: Path, nodes: int, at_once: int) -> Iterator[Site]:
    """A Ray cluster; at first it has a head without CPUs."""
    made = ray_cluster.RayCluster(root / "ray", {}, cpus=at_once // nodes, head_cpus=0)

    def start_nodes() -> None:
        for number in range(nodes):
            made.start_node(f"r{number + 2}")

    try:
        made.start_head()
        yield Site(
            made.site,
            open=start_nodes,
            left=lambda: [run for home in made.homes.values() for run in _runs_of(home)],
        )
    finally:
        made.stop()


def _runs_of(home: Path) -> list[Path]:
    return list((home / ray_cluster.FOLDER).glob("*"))


SITES = {"slurm": slurm_site, "ray": ray_site}
# On one machine: a run on Ray has an actor and an agent besides its worker.
AT_ONCE = {"slurm": 200, "ray": 24}


# ------------------------------------------------------------ watching


class Window:
    """What a window that shows all runs gets, counted."""

    def __init__(self, lab: Trainer) -> None:
        self.messages = 0
        self._client = TrainerClient.connect(lab.home)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        # It ends with the daemon, which is killed after the measurement.
        with suppress(MosaicError), self._client:
            for _ in self._client.watch():
                self.messages += 1


def segments(port: int) -> dict[str, int]:
    """The TCP segments with data that the daemon's open connections have carried."""
    shown = subprocess.run(
        ["ss", "-tinH", f"sport = :{port}"], capture_output=True, text=True, check=True
    )
    totals = {"in": 0, "out": 0}
    for way, count in _DATA_SEGMENTS.findall(shown.stdout):
        totals[way] += int(count)
    return totals


def _helpers_ticks(pid: int) -> int:
    """The CPU time of the daemon's helpers: those that have ended, such as `squeue`, and others."""
    fields = stat_fields(pid) or ["0"] * 20
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(fields[13]) + int(fields[14]) + sum(cpu_ticks(int(child)) for child in children)


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(status.split("VmRSS:")[1].split()[0]) / 1024, 1)


# ------------------------------------------------------------ the measurement


def measure(kind: str, root: Path, options: argparse.Namespace) -> Figures:
    """Fill a cluster, measure, kill the daemon, empty the cluster, look at what is left."""
    figures = Figures(
        command=" ".join(["python", "benchmarks/clusters.py", *sys.argv[1:]]),
        machine=f"{os.cpu_count()} cores, Python {platform.python_version()}",
        load_before=round(os.getloadavg()[0], 1),
        nodes=options.nodes,
        at_once=options.at_once,
    )
    with SITES[kind](root, options.nodes, options.at_once) as site:
        lab = Trainer(root / "home", "", {"site_poll_s": "2", "grace_s": "10"}).start()
        try:
            runs = _submit(lab, site.name, options.runs + options.queued, figures)
            _tell(f"submitted {len(runs)} runs")
            _fill(lab, site, options.at_once, figures)
            _tell(f"the cluster is full after {figures.filled_after_s} s")
            _look(lab, options.seconds, figures)
            _tell(json.dumps(asdict(figures)))
            _kill(lab, figures)
            _tell(f"all heard {figures.all_heard_after_kill_s} s after a kill")
            _pass_through(lab, options.runs, figures)
            _tell(f"{figures.runs_begun} runs have run")
            _cancel(lab, figures)
            _none_doubled(lab, runs)
            _tell("all are cancelled, none began twice")
            until(lambda: not site.left(), "the cluster is empty", PATIENCE_S)
        finally:
            lab.kill()
        until(lambda: not lab.processes(), "no process is left", PATIENCE_S)
    return figures


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _submit(lab: Trainer, site: str, count: int, figures: Figures) -> list[str]:
    # One step a second, for longer than any measurement.
    worker: dict[str, JsonValue] = {
        "algo": "darts",
        "total_timesteps": 1_000_000,
        "extras": {"step_ms": 1000},
    }
    config = build.any_worker(build.Worker("example"), worker).document() | {"site": site}
    began = time.monotonic()
    runs = [lab.client.submit(config).run_id for _ in range(count)]
    figures.submissions_a_second = round(count / (time.monotonic() - began), 1)
    return runs


def _fill(lab: Trainer, site: Site, at_once: int, figures: Figures) -> None:
    began = time.monotonic()
    site.open()

    def full() -> bool:
        try:
            return _count(lab, "EXEC") >= at_once
        except MosaicError:
            return False  # it has no time to answer while so many begin on the same machine

    until(full, "the cluster is full", PATIENCE_S)
    figures.filled_after_s = round(time.monotonic() - began, 1)


def _look(lab: Trainer, seconds: float, figures: Figures) -> None:
    """Measure the daemon with a window that shows all runs, and a person who asks for one."""
    window, port = Window(lab), find_endpoint(lab.home).port
    # Otherwise the first list of all runs would be counted as changes.
    runs = lab.client.list_runs(page_size=1).total
    until(lambda: window.messages >= runs, "the window knows all runs", PATIENCE_S)
    some = _live(lab)[0].run_id
    figures.waiting = _count(lab, "INIT")
    began, before, told = time.monotonic(), segments(port), window.messages
    ticks, helpers = cpu_ticks(lab.pid), _helpers_ticks(lab.pid)
    answers = []
    while time.monotonic() - began < seconds:
        asked = time.perf_counter()
        lab.client.get(some)
        answers.append((time.perf_counter() - asked) * 1000)
        time.sleep(0.5)
    took, after = time.monotonic() - began, segments(port)
    share = 100 / _TICKS / took
    figures.daemon_percent_of_a_core = round((cpu_ticks(lab.pid) - ticks) * share, 1)
    figures.helpers_percent_of_a_core = round((_helpers_ticks(lab.pid) - helpers) * share, 1)
    figures.daemon_resident_mb = _resident_mb(lab.pid)
    figures.changes_a_second = round((window.messages - told) / took, 1)
    figures.segments_in_a_second = round((after["in"] - before["in"]) / took, 1)
    figures.segments_out_a_second = round((after["out"] - before["out"]) / took, 1)
    figures.answer_ms_median = round(statistics.median(answers), 1)
    figures.answer_ms_most = round(max(answers), 1)


def _kill(lab: Trainer, figures: Figures) -> None:
    """kill -9 the daemon: the next one hears every worker again, and they are the same."""
    workers = {run.run_id: run.pid for run in _live(lab)}
    heard = {run_id: lab.client.get(run_id).progress.step for run_id in workers}
    began = time.monotonic()
    lab.restart()

    def all_heard() -> bool:
        try:
            live = {run.run_id: run for run in _live(lab)}
        except MosaicError:
            return False  # it is still reading what it finds
        return all(
            run_id in live and live[run_id].progress.step > step for run_id, step in heard.items()
        )

    until(all_heard, "every run is heard again", PATIENCE_S)
    figures.all_heard_after_kill_s = round(time.monotonic() - began, 1)
    now = {run.run_id: run.pid for run in _live(lab)}
    if any(now[run_id] != pid for run_id, pid in workers.items()):
        raise AssertionError("a run has another worker than before the kill")


def _count(lab: Trainer, state: str) -> int:
    return lab.client.list_runs(states=[state], page_size=1).total


def _live(lab: Trainer) -> list[RunRecord]:
    found: list[RunRecord] = []
    token = ""
    while True:
        page = lab.client.list_runs(states=["EXEC"], page_size=200, page_token=token)
        found += page.runs
        token = page.next_page_token
        if not token:
            return found


def _pass_through(lab: Trainer, wanted: int, figures: Figures) -> None:
    """End those that run, so that others begin, until so many have run."""
    hosts: dict[str, str] = {}
    while True:
        live = _live(lab)
        hosts |= {run.run_id: run.host for run in live}
        if len(hosts) >= wanted:
            break
        for run in live:
            # Begun, and not only started: it has said where it is.
            if run.progress.step > 0:
                lab.client.cancel(run.run_id)
        time.sleep(1.0)
    figures.runs_begun = len(hosts)
    figures.runs_by_node = dict(sorted(Counter(hosts.values()).items()))


def _cancel(lab: Trainer, figures: Figures) -> None:
    began, count = time.monotonic(), 0
    # Those that wait first, so that none of them begins meanwhile.
    for states in (["INIT"], ["HSHK", "RDY", "EXEC"]):
        while runs := lab.client.list_runs(states=states, page_size=200).runs:
            for run in runs:
                lab.client.cancel(run.run_id)
            lab.client.wait_all([run.run_id for run in runs])
            count += len(runs)
    figures.cancelled_a_second = round(count / (time.monotonic() - began), 1)


def _none_doubled(lab: Trainer, runs: list[str]) -> None:
    for run_id in runs:
        if lab.kinds(run_id).count("spawned") > 1:
            raise AssertionError(f"{run_id} began twice")
        record = lab.client.get(run_id)
        if record.outcome is not Outcome.CANCELLED:
            raise AssertionError(f"{run_id} ended {record.outcome}: {record.reason}")


def main() -> None:
    """Measure each kind of cluster and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="slurm|ray")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--at-once", type=int)
    parser.add_argument("--queued", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    path = RESULTS / "clusters.json"
    for kind in options.kinds or SITES:
        if kind not in SITES:
            parser.error(f"there is no cluster {kind!r}; there are: {', '.join(SITES)}")
        chosen = argparse.Namespace(**vars(options))
        chosen.at_once = options.at_once or AT_ONCE[kind]
        with tempfile.TemporaryDirectory(prefix="mosaic-clusters-") as root:
            figures = measure(kind, Path(root), chosen)
        document = json.loads(path.read_text()) if path.exists() else {}
        document[kind] = asdict(figures)
        path.write_text(json.dumps(document, indent=2) + "\n")
        print(json.dumps(asdict(figures), indent=2))


if __name__ == "__main__":
    main()
