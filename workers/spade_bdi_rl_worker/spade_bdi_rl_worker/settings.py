"""The settings of a run of this worker, and everything that can be wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from mosaic.config import keeping
from mosaic.config.model import Extras
from mosaic.workers import did_you_mean
from spade_bdi_rl_worker.errors import SettingsError

MODES = ("train", "resume_training", "policy_eval")
POLICIES = ("slow", "sample", "spool")
# Settings of the platform that mean nothing here and do no harm.
COMMON_EXTRAS = frozenset(Extras.model_fields)
DEFAULT_EPISODES = 2000
DEFAULT_HEADLESS_EPISODES = 20000
SMOKE_EPISODES = 30


Value = TypeVar("Value")


def _option(
    default: Value, text: str, low: float | None = None, high: float | None = None
) -> Value:
    return field(default=default, metadata={"help": text, "low": low, "high": high})


@dataclass(frozen=True)
class Settings:
    """One run. The field documentation drives `--help`, the checks and the form."""

    env_id: str = _option("FrozenLake-v1", "FrozenLake-v1, Taxi-v4, CliffWalking-v1 or MiniGrid-*")
    seed: int = _option(1, "random seed", 0, 2**32 - 1)
    episodes: int = _option(0, "episodes to train for; 0 takes the mode's default", 0)
    total_timesteps: int = _option(0, "stop after this many steps as well; 0: no limit", 0)
    smoke: bool = _option(False, "a short run that only shows that everything works")
    stop_at: int = _option(0, "end cleanly after this episode of a longer schedule; 0: do not", 0)
    mode: str = _option("train", "train, resume_training or policy_eval")
    headless: bool = _option(False, "fast Q-learning without agents, telemetry by summary")
    plan: str = _option(
        "balanced", "the learner's plan: a shipped name or the path of an .asl file"
    )
    coach_plan: str = _option("coach", "the coach's plan: a shipped name or a path")
    report_every: int = _option(20, "episodes between two reports to the coach; 0: no coach", 0)
    jid: str = _option("", "the learner's JID on an external server; empty: embedded server")
    password: str = _option("", "the JID's password")
    coach_jid: str = _option("", "the coach's JID on an external server; empty: <jid>-coach")
    xmpp_host: str = _option("", "the external server's address; empty: the JID's domain")
    xmpp_port: int = _option(5222, "the external server's client port", 1, 65535)
    reconnect_s: float = _option(60.0, "how long to wait for a lost XMPP server", 0.0, 3600.0)
    alpha: float = _option(0.1, "step size at the beginning", 0.0, 1.0)
    alpha_end: float = _option(0.01, "step size at the end", 0.0, 1.0)
    gamma: float = _option(0.99, "discount", 0.0, 1.0)
    epsilon_start: float = _option(1.0, "exploration at the beginning", 0.0, 1.0)
    epsilon_end: float = _option(0.05, "exploration at the end", 0.0, 1.0)
    exploration_fraction: float = _option(0.5, "share of the run until epsilon_end", 0.0, 1.0)
    max_steps: int = _option(0, "longest episode; 0: the environment's own limit", 0)
    lanes: int = _option(0, "headless: episodes side by side; 0: chosen by their number", 0, 4096)
    env_kwargs: dict[str, object] = field(
        default_factory=dict, metadata={"help": "arguments for the environment"}
    )
    frames: bool = _option(True, "record a picture of each step")
    record_every: int = _option(1, "record the steps of every n-th episode", 1)
    minimal_telemetry: bool = _option(False, "send summaries instead of each step")
    telemetry_policy: str = _option("spool", "without credit: slow, sample or spool")
    checkpoint_every: int = _option(500, "episodes between checkpoints; 0: only at the end", 0)
    keep_checkpoints: str = _option(
        keeping.DEFAULT, "full checkpoints to keep: last:K, every:N (episodes) or best"
    )
    checkpoint_path: str = _option("", "the checkpoint to resume from, or a folder of them")
    policy_path: str = _option("", "the policy to evaluate, or its folder")
    eval_episodes: int = _option(100, "episodes of an evaluation", 1)
    eval_max_steps: int = _option(0, "longest episode of an evaluation; 0: as in training", 0)
    eval_each_seed: bool = _option(False, "begin episode n of an evaluation with seed + n")

    @property
    def plans(self) -> list[tuple[str, str, tuple[tuple[str, str, int], ...]]]:
        """Each plan that is read: its setting, what it was given, and the plans it must have."""
        learner = ("plan", self.plan, (("+!", "act", 0),))
        coach = ("coach_plan", self.coach_plan, (("+", "report", 3),))
        return [learner, coach] if self.report_every else [learner]

    @property
    def planned_episodes(self) -> int:
        """How many episodes this run is about."""
        if self.smoke and not self.episodes:
            return SMOKE_EPISODES
        return self.episodes or (DEFAULT_HEADLESS_EPISODES if self.headless else DEFAULT_EPISODES)

    def finished(self, episode: int, steps: int) -> bool:
        """Whether a run that has come this far has done what it was asked."""
        out_of_steps = 0 < self.total_timesteps <= steps
        return out_of_steps or episode >= (self.stop_at or self.planned_episodes)

    @property
    def embedded(self) -> bool:
        """Whether the worker brings its own XMPP server."""
        return not self.jid


def names() -> list[str]:
    """Every setting's name."""
    return [item.name for item in fields(Settings)]


def from_config(config: Mapping[str, object], overrides: Mapping[str, object]) -> Settings:
    """Settings from a worker config (its extras and algo_params included) and the command line.

    Raises:
        SettingsError: With every problem found: unknown names, wrong types, values out of range.
    """
    given: dict[str, object] = {}
    problems: list[str] = []
    extras = _section(config.get("extras"))
    params = _section(extras.pop("algo_params", None))
    own = {k: v for k, v in config.items() if k in ("env_id", "seed", "total_timesteps") and v}
    for source in (own, extras, params, overrides):
        for name, value in source.items():
            if name in names():
                given[name] = value
            elif name not in COMMON_EXTRAS:
                problems.append(_unknown(name))
    # Fields that the platform writes as null or leaves at its own default are not given.
    given = {name: value for name, value in given.items() if value is not None}
    # Checked below, field by field, against the types of `Settings`.
    checked: dict[str, Any] = {}
    for item in fields(Settings):
        if item.name in given:
            value, problem = _check(item, given[item.name])
            checked[item.name] = value
            problems += [problem] if problem else []
    if not problems:
        settings = Settings(**checked)
        problems = _semantic_problems(settings)
        if not problems:
            return settings
    raise SettingsError("; ".join(problems), "see: python -m spade_bdi_rl_worker.cli --help")


def _unknown(name: str) -> str:
    guess = did_you_mean(name, names()) or f"; known are {', '.join(names())}"
    return f"there is no setting {name!r}{guess}"


def _section(value: object) -> dict[str, object]:
    """A part of a config, which may be left out."""
    return dict(value) if isinstance(value, Mapping) else {}


def _check(item: Field[object], value: object) -> tuple[object, str]:
    kind = type(item.default) if item.default is not MISSING else dict
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if item.name == "keep_checkpoints" and type(value) is int:
        value = str(value)  # a plain number is how many of the newest to keep
    if type(value) is not kind:
        return value, f"{item.name} must be {kind.__name__}, not {value!r}"
    low, high = item.metadata.get("low"), item.metadata.get("high")
    if isinstance(value, int | float) and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        return value, f"{item.name} must be {bounds}, not {value}"
    return value, ""


def _semantic_problems(settings: Settings) -> list[str]:
    problems = []
    for name, allowed in (("mode", MODES), ("telemetry_policy", POLICIES)):
        value = getattr(settings, name)
        if value not in allowed:
            problems.append(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    try:
        keeping.check(settings.keep_checkpoints)
    except ValueError as error:
        problems.append(f"keep_checkpoints: {error}")
    if settings.jid and ("@" not in settings.jid or settings.jid.startswith("@")):
        problems.append(f"jid must look like name@server, not {settings.jid!r}")
    if settings.jid and not settings.password:
        problems.append("an external XMPP server needs a password for the jid")
    if settings.mode == "policy_eval" and not settings.policy_path:
        problems.append("policy_eval needs policy_path, an earlier run's policy.json or its folder")
    return problems
