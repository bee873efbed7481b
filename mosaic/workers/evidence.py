"""What a run of a worker left behind, judged by the contract; for `mosaic check-worker`."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from mosaic.curves.pace import MOST_POINTS
from mosaic.errors import WorkerContractError
from mosaic.records import RunRecord
from mosaic.workers.lifecycle import LifecycleLine, QuarantinedLine, parse_line

# The contract allows a line of metrics at each mark of the curve and one a second. Twice that is
# no accident of the clock.
_MOST_METRICS_A_SECOND = 2.0


def good_lines(record: RunRecord) -> list[LifecycleLine]:
    """The lifecycle lines that keep the contract."""
    return [line for line in _lines(record) if isinstance(line, LifecycleLine)]


def broken_lines(record: RunRecord) -> list[str]:
    """What is wrong with lines that look like lifecycle lines."""
    return [
        f"a line it printed is not valid: {line.reason}"
        for line in _lines(record)
        if isinstance(line, QuarantinedLine)
    ]


def judge_output(record: RunRecord, secrets: Mapping[str, str]) -> str:
    """Whether what a worker printed keeps the contract.

    Args:
        record: The run.
        secrets: What it was given to keep to itself, by the name of the variable.

    Raises:
        WorkerContractError: It printed a secret, broken lines, or too many.
    """
    for stream in ("stdout.log", "stderr.log"):
        text = _read(record, stream)
        for name, value in secrets.items():
            if value.encode() in text:
                raise WorkerContractError(f"it prints {name} in {stream}; everyone can read logs")
    broken = broken_lines(record)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise WorkerContractError(broken[0] + more)
    lines = good_lines(record)
    told = [line.at for line in lines if line.event == "metrics"]
    lasted = max(told) - min(told) if told else 0.0
    if len(told) > 2 * MOST_POINTS + _MOST_METRICS_A_SECOND * lasted:
        raise WorkerContractError(
            f"{len(told):,} metrics lines in {lasted:.1f} s; the contract allows {MOST_POINTS:,} "
            "in a run and one a second (LifecycleEmitter.metrics merges them)"
        )
    return f"{len(lines)} lifecycle lines, all well formed, and no secret"


def judge_checkpoints(record: RunRecord) -> str:
    """Whether the newest checkpoint of each kind is there as it was announced.

    Older ones may be gone: a worker keeps only a few.

    Raises:
        WorkerContractError: One is missing or has another checksum.
    """
    saved = [line.fields for line in good_lines(record) if line.event == "checkpoint_saved"]
    newest = {fields["kind"]: fields for fields in saved}
    for kind, fields in newest.items():
        path = Path(record.run_dir) / str(fields["path"])
        if not path.is_file():
            raise WorkerContractError(
                f"checkpoint_saved names {fields['path']}, which is not a file"
            )
        if hashlib.sha256(path.read_bytes()).hexdigest() != fields["sha256"]:
            raise WorkerContractError(f"the sha256 of {fields['path']} ({kind}) does not match")
    return ", ".join(f"{kind}: {fields['path']}" for kind, fields in newest.items()) or "none"


def _lines(record: RunRecord) -> list[LifecycleLine | QuarantinedLine]:
    lines: list[LifecycleLine | QuarantinedLine] = []
    newest = 0
    # The last piece is a line that is still being written, or nothing.
    for raw in _read(record, "stdout.log").split(b"\n")[:-1]:
        parsed = parse_line(raw, record.run_id, newest)
        if isinstance(parsed, LifecycleLine):
            newest = parsed.seq
        if parsed is not None:
            lines.append(parsed)
    return lines


def _read(record: RunRecord, name: str) -> bytes:
    path = Path(record.run_dir) / "logs" / name
    return path.read_bytes() if record.run_dir and path.exists() else b""
