"""Presets of the train form: shipped ones for every algorithm, and those people save."""

from collections.abc import Mapping
from dataclasses import dataclass

from gym_gui.models.stored import fields, items
from gym_gui.models.train_draft import TrainDraft
from mosaic.workers.facts import AlgorithmFacts

_VERSION = 1
# What a run is called and why it was made belong to one run, not to a way of training.
_OF_ONE_RUN = ("run_name", "notes", "worker", "module", "algo")
# The fewest with which papers commonly report a spread.
_REPORT_SEEDS = 5


@dataclass(frozen=True)
class Preset:
    """Part of a draft under a name.

    Attributes:
        name: What people see.
        fields: Fields of the draft that it sets; all others stay as they are.
        hint: What it is for.
        shipped: It came with the workbench and cannot be deleted.
    """

    name: str
    fields: Mapping[str, object]
    hint: str = ""
    shipped: bool = False

    def apply(self, draft: TrainDraft) -> TrainDraft:
        """The draft with what the preset says.

        Raises:
            TypeError: The preset was stored by something else.
        """
        kept = {key: value for key, value in self.fields.items() if key not in _OF_ONE_RUN}
        return TrainDraft.from_json({**draft.to_json(), **kept})


def shipped_presets(description: AlgorithmFacts, recommended: int | None) -> list[Preset]:
    """What every algorithm comes with.

    Args:
        description: What its script says about itself.
        recommended: Steps that usually show a result in the chosen environment.
    """
    presets = []
    smoke = dict(description.get("smoke") or {})
    if smoke:
        chosen: dict[str, object] = {"seeds": 1}
        for name in ("env_id", "total_timesteps"):
            if name in smoke:
                chosen[name] = smoke.pop(name)
        hint = "The script's own short settings: does it run at all?"
        presets.append(Preset("Quick check", {**chosen, "params": smoke}, hint, True))
    defaults: dict[str, object] = {"params": {}, "total_timesteps": recommended}
    presets.append(
        Preset("Usual training", {**defaults, "seeds": 1}, "Default values, the usual length", True)
    )
    report = {**defaults, "seeds": _REPORT_SEEDS, "capture_video": True}
    hint = f"{_REPORT_SEEDS} seeds with default values, for a mean and a band"
    presets.append(Preset("For a report", report, hint, True))
    return presets


class PresetBook:
    """The presets that people saved, by worker and algorithm."""

    def __init__(self) -> None:
        self._presets: dict[tuple[str, str], dict[str, Preset]] = {}

    def of(self, worker: str, algo: str) -> list[Preset]:
        """The saved presets of an algorithm."""
        return sorted(self._presets.get((worker, algo), {}).values(), key=lambda one: one.name)

    def save(self, draft: TrainDraft, name: str) -> Preset:
        """Keep a draft's settings under a name; never a secret."""
        document = draft.to_json()
        kept = {key: value for key, value in document.items() if key not in _OF_ONE_RUN}
        preset = Preset(name, kept, draft.env_id)
        self._presets.setdefault((draft.worker, draft.algo), {})[name] = preset
        return preset

    def delete(self, worker: str, algo: str, name: str) -> None:
        """Forget one."""
        self._presets.get((worker, algo), {}).pop(name, None)

    def to_json(self) -> dict[str, object]:
        """For storing."""
        entries = [
            {"worker": worker, "algo": algo, "name": one.name, "draft": dict(one.fields)}
            for (worker, algo), presets in self._presets.items()
            for one in presets.values()
        ]
        return {"version": _VERSION, "presets": entries}

    @classmethod
    def from_json(cls, document: object) -> tuple["PresetBook", str]:
        """What was stored, and a notice when some of it could not be used."""
        book = cls()
        if document is None:
            return book, ""
        try:
            if fields(document)["version"] != _VERSION:
                return book, "The saved presets are from another version; none are shown"
            for entry in map(fields, items(fields(document)["presets"])):
                whose = {key: entry[key] for key in ("worker", "algo")}
                draft = TrainDraft.from_json({**fields(entry["draft"]), **whose})
                book.save(draft, str(entry["name"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return book, "Some of the saved presets could not be read"
        return book, ""
