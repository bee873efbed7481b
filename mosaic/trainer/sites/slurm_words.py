"""What SLURM says about a job, and what that means, in plain words. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from mosaic.records.run import Outcome
from mosaic.trainer.core.evidence import ENDED, QUEUED, RUNNING

# One line of `squeue`, cut by the width of its columns: a reason may hold any character.
FORMAT = (
    ("JobID", 32),
    ("Name", 64),
    ("State", 24),
    ("Reason", 80),
    ("StartTime", 24),
    ("RestartCnt", 12),
    ("NodeList", 120),
)
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
_ENDS = frozenset(
    {
        "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL",
        "DEADLINE", "OUT_OF_MEMORY", "REVOKED",
    }
)  # fmt: skip
# The machine was taken away, and nothing is wrong with the run.
_TAKEN = {
    "PREEMPTED": "was preempted by other work",
    "NODE_FAIL": "lost its node",
    "BOOT_FAIL": "lost its node",
}
_STOPPED = {
    "CANCELLED": (Outcome.CANCELLED, "was cancelled from outside (scancel)"),
    "TIMEOUT": (Outcome.TIME_LIMIT, "reached its time limit"),
    "DEADLINE": (Outcome.TIME_LIMIT, "missed its deadline"),
}
_REASONS = {
    "Resources": "waits for resources",
    "Priority": "waits for jobs with a higher priority",
    "Dependency": "waits for another job",
    "BeginTime": "begins later",
    "JobHeldUser": "is held; release it: scontrol release {job}",
    "JobHeldAdmin": "is held by an administrator",
    "JobHoldMaxRequeue": "is held after too many restarts; release it: scontrol release {job}",
    "Licenses": "waits for a license",
    "PartitionDown": "waits: its partition is down",
    "PartitionInactive": "waits: its partition is inactive",
    "PartitionTimeLimit": "cannot start: it asks for more time than its partition allows",
    "PartitionNodeLimit": "cannot start: it asks for more nodes than its partition allows",
    "AccountNotAllowed": "cannot start: its account may not use this partition",
    "BadConstraints": "cannot start: no node can have what it asks for",
    "NodeDown": "waits: its node is down",
    "ReqNodeNotAvail": "waits for a node that is not available now",
    "Reservation": "waits for its reservation",
    "Cleaning": "waits until its last node has been cleaned up",
    "launch failed requeued held": "is held after its start failed; run: scontrol release {job}",
}
# A job without a time limit counts as one of a year, so what waits for it "begins" next year.
_NO_ESTIMATE = timedelta(days=300)
_UNTIL_SOMEONE_ACTS = ("is held", "cannot start")
# The families of limits that accounts and users have: AssocGrpCpuLimit, QOSMaxJobsPerUserLimit, ….
_LIMIT = re.compile(r"(Assoc|QOS)\w*\Z")


@dataclass(frozen=True)
class Job:
    """A job as SLURM describes it.

    Attributes:
        restarts: How often SLURM has begun it again.
        begins: When SLURM expects to begin it; empty if it does not say.
    """

    number: str
    name: str
    state: str
    reason: str = ""
    begins: str = ""
    restarts: int = 0
    nodes: str = ""

    @property
    def word(self) -> str:
        """`queued`, `running` or `ended`."""
        if self.state in _WAITING:
            return QUEUED
        return ENDED if self.state in _ENDS else RUNNING

    @property
    def taken(self) -> bool:
        """Whether it ended because its machine was taken away."""
        return self.state in _TAKEN

    @property
    def stopped(self) -> Outcome | None:
        """The outcome that its end stands for; None where the worker's own end decides."""
        return _STOPPED[self.state][0] if self.state in _STOPPED else None

    def sentence(self) -> str:
        """What is going on, for people."""
        return f"SLURM job {self.number}{self._what()}"

    def _what(self) -> str:
        if self.word == QUEUED:
            why = self._why_it_waits()
            # SLURM names a moment for a held job too, at which nothing will happen.
            return f": {why}" if why.startswith(_UNTIL_SOMEONE_ACTS) else f": {why}{self._when()}"
        if self.state in _TAKEN:
            return f" {_TAKEN[self.state]}"
        if self.state in _STOPPED:
            return f" {_STOPPED[self.state][1]}"
        if self.word == ENDED:
            return f" ended ({self.state.lower().replace('_', ' ')})"
        place = f" on {self.nodes}" if self.nodes else ""
        return f": starts{place}" if self.state == "CONFIGURING" else f" runs{place}"

    def _why_it_waits(self) -> str:
        plain = self.reason.split(",")[0].strip("() ")
        if plain in _REASONS:
            return _REASONS[plain].format(job=self.number)
        if _LIMIT.match(plain):
            return f"waits: a limit of its account is reached ({plain})"
        return "waits" if plain in ("", "None") else f"waits ({plain})"

    def _when(self) -> str:
        try:
            moment = datetime.fromisoformat(self.begins)
        except ValueError:
            return ""
        now = datetime.now()
        if moment - now > _NO_ESTIMATE:
            return ""
        same_day = moment.date() == now.date()
        return f", about {moment:%H:%M}" if same_day else f", about {moment:%d %b %H:%M}"


def read_line(line: str) -> Job | None:
    """The job in a line of `squeue`; None where it holds none."""
    cells, start = [], 0
    for _, width in FORMAT:
        cells.append(line[start : start + width].strip())
        start += width
    number, name, state, reason, begins, restarts, nodes = cells
    if not number or not state:
        return None
    count = int(restarts) if restarts.isdigit() else 0
    return Job(number, name, state.split(" ")[0].rstrip("+"), reason, begins, count, nodes)
