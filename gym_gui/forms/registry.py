"""Which forms there are, and which of them an actor gets: by capability, never by name."""

from collections.abc import Callable
from dataclasses import dataclass

from gym_gui.forms.base import WorkerForm
from gym_gui.forms.evaluate_form import EvaluateForm
from gym_gui.forms.generic_form import GenericForm
from gym_gui.forms.resume_form import ResumeForm
from gym_gui.forms.script_form import ScriptForm
from gym_gui.forms.sweep_form import SweepForm
from gym_gui.forms.train_form import TrainForm
from gym_gui.models.actors import Actor
from gym_gui.services import Services

TRAIN, SCRIPT, RESUME, EVALUATE, GENERIC = "train", "script", "resume", "evaluate", "generic"
SWEEP = "sweep"


@dataclass(frozen=True)
class FormKind:
    """One form: its title and how to make it."""

    title: str
    make: Callable[[Services], WorkerForm]


FORMS: dict[str, FormKind] = {
    TRAIN: FormKind("Train", TrainForm),
    SWEEP: FormKind("Sweep", SweepForm),
    RESUME: FormKind("Continue", ResumeForm),
    EVALUATE: FormKind("Evaluate", EvaluateForm),
    SCRIPT: FormKind("Script", ScriptForm),
    GENERIC: FormKind("Config", GenericForm),
}


def forms_for(actor: Actor) -> list[str]:
    """The kinds of forms an actor gets."""
    if not actor.trains_algorithms:
        return [GENERIC]
    kinds = [TRAIN, SWEEP]
    if actor.capabilities and actor.capabilities.supports_checkpointing:
        kinds += [RESUME, EVALUATE]
    if actor.provides_fast_analytics:
        kinds.append(SCRIPT)
    return kinds
