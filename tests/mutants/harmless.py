"""Edits that change nothing that anyone could see, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from mutants.edits import Edit


@dataclass(frozen=True)
class Harmless:
    """A kind of edit that no check can notice.

    Attributes:
        line: a part of the edited line.
        old: what is replaced, or the beginning of it; empty for whatever it is.
        new: what replaces it; empty for whatever does.
        why: why nothing changes.
        files: the names of the files it is harmless in; empty for all.
        before: what comes right before the edited place, if `old` occurs twice in the line.
    """

    line: str
    old: str
    new: str
    why: str
    files: tuple[str, ...] = ()
    before: str = ""

    def covers(self, edit: Edit) -> bool:
        """Whether an edit is of this kind."""
        return (
            self.line in edit.text
            and edit.old.startswith(self.old)
            and edit.before.endswith(self.before)
            and self.new in ("", edit.new)
            and (not self.files or edit.apply().name in self.files)
        )


# Those of every family; the others stand in the family's module as `HARMLESS`.
EVERYWHERE = [
    Harmless(
        "if cut_off.any():",
        "cut_off.any()",
        "True",
        "it saves time: where no episode was cut off, zero is added",
    ),
    *(
        Harmless(
            "(std + 1e-8)",
            old,
            "",
            "it guards against a division by zero; a batch's spread is a million times as large",
        )
        for old in ("std + 1e-8", "1e-8")
    ),
]
