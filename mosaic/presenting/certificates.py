"""What training a piece of a run again has shown, in words; the same in every client. Pure."""

from mosaic.runs.certificate import Certificate as Certificate
from mosaic.runs.certificate import Verdict, describe_machine

_VERDICTS: dict[Verdict, str] = {
    "verified": "verified",
    "changed": "CHANGED: the same training state, but",
    "differs": "DIFFERS",
}


def verdict_line(found: Certificate) -> str:
    """The verdict on the piece, in one line."""
    return f"steps {found['from_step']:,} to {found['to_step']:,}: {_VERDICTS[found['verdict']]}"


def certificate_lines(found: Certificate) -> list[str]:
    """What the verdict rests on: findings first, then what was compared, and where."""
    lines = [f"- {sentence}" for sentence in found["findings"]]
    state = found["state"]
    if state is not None:
        equal = state["values"] - len(state["different"])
        lines.append(f"{equal:,} of {state['values']:,} values are equal to the last bit")
        lines.append(f"digest of the training state: {state['trained_digest']}")
    now, then = (describe_machine(found[key]) for key in ("machine_now", "machine_then"))
    lines.append(f"machine: {now}")
    if now != then:
        lines.append(f"trained on: {then}")
    if found["code"] is not None:
        code = found["code"]
        lines.append(f"MOSAIC's own code: {code['then']} then, {code['now']} now")
    if found["other_packages"]:
        count = len(found["other_packages"])
        words = "1 package that training does not use has another version"
        if count > 1:
            words = f"{count} packages that training does not use have other versions"
        lines.append(words)
    return lines
