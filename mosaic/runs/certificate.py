"""The certificate of a run: what training a piece of it again has shown. Pure.

`mosaic verify` trains a piece of a run again, in a run of its own. The process that did it writes
`certificate.json` there: what was compared, on which machine, and exactly what differed.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from pydantic import JsonValue

FILE = "certificate.json"
# `changed`: the same training state, although something is no longer as the run recorded it.
Verdict = Literal["verified", "changed", "differs"]

_MACHINE = ("platform", "processor", "cpu_count", "python", "devices")


class Change(TypedDict):
    """Something that is not as it was when the run was trained."""

    name: str
    then: "JsonValue"
    now: "JsonValue"


class CheckpointCheck(TypedDict):
    """A checkpoint's file, as it was recorded and as it was found."""

    path: str
    step: int
    recorded_sha256: str
    found_sha256: str


class StateCheck(TypedDict):
    """The training state at the end of the piece, the recorded one and the one trained again.

    The digests leave out what may differ between two equal trainings: paths and times.
    """

    values: int
    recorded_digest: str
    trained_digest: str
    different: list[str]
    first_difference: str


class Certificate(TypedDict):
    """What training a piece of a run again has shown."""

    schema_version: int
    verdict: Verdict
    findings: list[str]
    run_id: str
    verified_by: str
    made_at: str
    from_step: int
    to_step: int
    checkpoints: list[CheckpointCheck]
    state: StateCheck | None
    not_trained: str
    settings: list[Change]
    packages: list[Change]
    other_packages: list[Change]
    code: Change | None
    machine_then: "dict[str, JsonValue]"
    machine_now: "dict[str, JsonValue]"


def findings(
    checkpoints: Sequence[CheckpointCheck],
    settings: Sequence[Change],
    packages: Sequence[Change],
    state: StateCheck | None,
    not_trained: str,
) -> list[str]:
    """A sentence for each thing that is wrong, the cause before its effects."""
    sentences = [
        f"the checkpoint {item['path']} has changed since it was written: recorded "
        f"{item['recorded_sha256'][:12]}…, found {_short(item['found_sha256'])}"
        for item in checkpoints
        if item["found_sha256"] != item["recorded_sha256"]
    ]
    sentences += [f"the setting {_said(change)}" for change in settings]
    sentences += [f"the package {_said(change)}" for change in packages]
    if not_trained:
        sentences.append(f"the piece could not be trained again: {not_trained}")
    if state is not None and state["different"]:
        more = len(state["different"]) - 1
        rest = f", and {more:,} more of {state['values']:,} values" if more else ""
        sentences.append(f"the first value that differs is {state['first_difference']}{rest}")
    return sentences


def verdict(found: Sequence[str], state: StateCheck | None) -> Verdict:
    """What the findings amount to."""
    if state is None or state["different"]:
        return "differs"
    return "changed" if found else "verified"


def changes(then: "Mapping[str, JsonValue]", now: "Mapping[str, JsonValue]") -> list[Change]:
    """What two mappings have different, by name; None where one lacks it."""
    names = sorted({*then, *now})
    return [
        Change(name=name, then=then.get(name), now=now.get(name))
        for name in names
        if then.get(name) != now.get(name)
    ]


def machine(provenance: "Mapping[str, JsonValue]", threads: "JsonValue") -> "dict[str, JsonValue]":
    """The machine that a run was trained on, as far as its provenance says."""
    known: dict[str, JsonValue] = {name: provenance.get(name) for name in _MACHINE}
    return {**known, "threads": threads}


def describe_machine(facts: "Mapping[str, JsonValue]") -> str:
    """A machine in one line."""
    python = str(facts.get("python") or "").split(" ")[0]
    parts = (
        str(facts.get("processor") or ""),
        _counted(facts["cpu_count"], "core") if facts.get("cpu_count") else "",
        _counted(facts["threads"], "thread") if facts.get("threads") else "",
        f"Python {python}" if python else "",
        str(facts.get("platform") or ""),
    )
    return ", ".join(filter(None, parts)) or "not recorded"


def _counted(number: "JsonValue", noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _said(change: Change) -> str:
    then = "not there" if change["then"] is None else change["then"]
    now = "not there" if change["now"] is None else change["now"]
    return f"{change['name']} has changed: {then} then, {now} now"


def _short(digest: str) -> str:
    return f"{digest[:12]}…" if digest else "no file that can be read"
