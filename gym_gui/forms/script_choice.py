"""Which algorithm in which environment, and what the worker knows about the two."""

from collections.abc import Iterable, Sequence
from typing import Literal

from qtpy.QtCore import QObject, Signal

from gym_gui.algo_docs import library
from gym_gui.models import environments as env_lists
from gym_gui.models.actors import Actor
from gym_gui.models.requirement_sets import needed
from gym_gui.services import Services
from gym_gui.widgets.picker import Picker
from mosaic.config.json_types import JsonValue
from mosaic.workers.facts import AlgorithmFacts, EnvironmentFacts
from mosaic.workers.fitting import misfit


class ScriptChoice(QObject):
    """Two pickers; the environments narrow to what the algorithm can act on.

    Signals:
        described: The algorithm's description has come; its name and what it says.
        env_picked: An environment that fits was chosen.
        listed: The algorithms, or the environments that fit, are others.
        edited: Something was chosen or typed.
    """

    described = Signal(str, dict)
    env_picked = Signal()
    listed = Signal()
    edited = Signal()

    def __init__(self, services: Services, parent: QObject) -> None:
        super().__init__(parent)
        self._services = services
        self.actor: Actor | None = None
        self.name = ""
        self.description: AlgorithmFacts = {}
        self._environments: list[EnvironmentFacts] = []
        self.env_groups: list[tuple[str, list[str]]] = []
        # While a draft is shown, its environment is not replaced by the algorithm's own.
        self.keep_env = False
        self.algo = Picker("algorithm")
        self.env = Picker("environment")
        self.algo.picked.connect(self._on_algo)
        self.env.picked.connect(lambda _env_id: self.env_picked.emit())
        for picker in (self.algo, self.env):
            picker.checked.connect(self.edited)

    def set_actor(self, actor: Actor) -> None:
        """Offer what this worker has."""
        self.actor = actor
        if actor.capabilities is None:
            return
        hooks = self._services.hooks
        hooks.algorithms(actor.capabilities, self._on_algorithms, self._complain)
        hooks.environments(actor.capabilities, self._on_environments, self._complain)

    def default(self, argument: str) -> JsonValue:
        """What the script takes when an argument is not given."""
        for known in self.description.get("arguments", ()):
            if known["name"] == argument:
                return known["default"]
        return None

    def default_steps(self) -> int | None:
        """How long the script trains when nothing is given; None for one that counts otherwise."""
        steps = self.default("total_timesteps")
        # A worker that counts episodes has a default of 0, which means: not given.
        return int(steps) if isinstance(steps, int | float) and steps else None

    def usual_steps(self) -> int | None:
        """How long training usually takes in the chosen environment, where that is known."""
        env_id = self.env.text
        return library.recommended_timesteps(self.name, _help_family(self._family(), env_id))

    def misfit(self, description: AlgorithmFacts, env_id: str) -> str:
        """Why an algorithm cannot be trained in an environment; empty when it can."""
        worker = self.actor.capabilities if self.actor else None
        environment = next((e for e in self._environments if e["id"] == env_id), None)
        if worker is None or environment is None or not description:
            return ""
        return misfit(worker, environment, description)

    def requirements(self, stages: Sequence[str] = ()) -> list[str]:
        """The requirement sets that the algorithm and the environment need.

        Args:
            stages: The environments of a curriculum, where there is one.
        """
        requires = [*(self.description.get("requires") or ()), *(["curriculum"] if stages else [])]
        families = sorted({self._family(), *self.families(stages)})
        sets = [name for family in families for name in needed(requires, family)]
        return list(dict.fromkeys(sets))

    def kind_of(self, env_id: str, noun: Literal["actions", "observations"]) -> str:
        """What kind of `actions` or `observations` an environment has; empty if not known."""
        return next((e[noun] for e in self._environments if e["id"] == env_id), "")

    def families(self, env_ids: Iterable[str]) -> set[str]:
        """The families of some environments."""
        wanted = set(env_ids)
        return {e["family"] for e in self._environments if e["id"] in wanted}

    def _family(self) -> str:
        chosen = self.env.text
        return next((e["family"] for e in self._environments if e["id"] == chosen), "")

    def _on_algorithms(self, names: list[str]) -> None:
        self.algo.set_choices([("", sorted(names))])
        if not self.algo.text and names:
            self.algo.set_text("ppo" if "ppo" in names else sorted(names)[0])
        self.listed.emit()

    def _on_environments(self, found: list[EnvironmentFacts]) -> None:
        self._environments = found
        self._narrow()

    def _on_algo(self, name: str) -> None:
        if self.actor is None or self.actor.capabilities is None or name == self.name:
            return
        self._services.hooks.describe(
            self.actor.capabilities,
            name,
            lambda description: self._on_description(name, description),
            self._complain,
        )

    def _on_description(self, name: str, description: AlgorithmFacts) -> None:
        if name == self.algo.text:
            self.name, self.description = name, description
            self._narrow()
            self.described.emit(name, description)

    def _narrow(self) -> None:
        worker = self.actor.capabilities if self.actor else None
        if not self._environments or worker is None:
            return
        fitting = env_lists.fitting(worker, self._environments, self.description)
        self.env_groups = env_lists.by_family(fitting)
        self.env.set_choices(self.env_groups)
        self.listed.emit()
        default = str(self.description.get("default_env") or "")
        if self.env.problem and not self.keep_env and default in self.env.names:
            self.env.set_text(default)

    def _complain(self, error: Exception) -> None:
        self._services.notices.error("The worker could not be asked", error)


def _help_family(family: str, env_id: str) -> str:
    if family == "classic_control":
        continuous = env_id.startswith(("Pendulum", "MountainCarContinuous"))
        return "classic_continuous" if continuous else "classic"
    return {"babyai": "minigrid"}.get(family, family)
