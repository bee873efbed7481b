"""What can be known to be wrong with a game before it starts."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from human_worker.keys import POLICY, KeyScriptError, UnknownKeyError, parse_script
from mosaic.errors import InvalidConfigError, MosaicError
from mosaic.workers import Problem, did_you_mean
from mosaic.workers.algorithms import worker_for
from mosaic.workers.player_socket import RESET

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

UNREADABLE_SCRIPT, UNKNOWN_ENVIRONMENT, BAD_POLICY = "CFG114", "CFG107", "CFG131"


def problems(config: "TrainRunConfig") -> list[Problem]:
    """The daemon's hook: the environment has to exist, and a script of keys to be readable."""
    if config.worker.extras.mode == "take_over":
        # The environment is the policy's, and may be one that only its worker knows.
        return [*_script_problems(config), *_policy_problems(config)]
    return [*_script_problems(config), *_environment_problems(config.worker.env_id)]


def _policy_problems(config: "TrainRunConfig") -> Iterator[Problem]:
    """The policy has to be there, and the worker that trained it has to be able to play it."""
    extras = config.worker.extras
    where = "/metadata/worker/config/extras"
    if not extras.policy_path:
        text = "'policy_path' is required: the policy that plays when you do not"
        yield Problem(f"{where}/policy_path", BAD_POLICY, text)
    elif not Path(extras.policy_path).exists():
        text = f"there is no policy {extras.policy_path}"
        yield Problem(f"{where}/policy_path", BAD_POLICY, text)
    try:
        worker_for("interactive", str(extras.own.get("policy_worker") or ""))
    except InvalidConfigError as error:
        yield Problem(f"{where}/policy_worker", BAD_POLICY, str(error))


def _script_problems(config: "TrainRunConfig") -> Iterator[Problem]:
    script = config.worker.extras.own.get("script")
    if not script:
        return
    where = "/metadata/worker/config/extras/script"
    try:
        presses = parse_script(str(script))
    except KeyScriptError as error:
        yield Problem(where, UNREADABLE_SCRIPT, str(error))
        return
    shared = config.worker.extras.mode == "take_over"
    pseudo = (RESET, POLICY) if shared else (RESET,)
    for sentence in _unknown_keys(config.worker.env_id, presses, pseudo):
        yield Problem(where, UNREADABLE_SCRIPT, sentence)


def _unknown_keys(
    env_id: str, presses: list[tuple[str, ...]], pseudo: Collection[str]
) -> Iterator[str]:
    """Each key of a script that does nothing in its environment, once."""
    from human_worker.environment import EnvHost

    # An environment that cannot be made is reported by its own check, or by the run.
    try:
        game = EnvHost(env_id)
    except MosaicError:
        return
    try:
        for keys in dict.fromkeys(presses):
            try:
                game.keys.action(key for key in keys if key not in pseudo)
            except UnknownKeyError as error:
                yield str(error)
    finally:
        game.close()


def _environment_problems(env_id: str) -> Iterator[Problem]:
    # `module:Id-v0` is the user's own; only making it tells.
    if not env_id or ":" in env_id:
        return
    # Imported here: the daemon's other checks do not wait for Gymnasium.
    import gymnasium

    from human_worker.environment import PlayError, register_family

    where = "/metadata/worker/config/env_id"
    try:
        register_family(env_id)
    except PlayError as error:
        yield Problem(where, UNKNOWN_ENVIRONMENT, str(error))
        return
    known = gymnasium.registry
    name = env_id.rpartition("-v")[0]
    # An older or newer version is Gymnasium's own question; it names the version that exists.
    if env_id not in known and not any(
        other.rpartition("-v")[0] == name for other in known if name
    ):
        text = f"there is no environment {env_id!r}{did_you_mean(env_id, known)}"
        yield Problem(where, UNKNOWN_ENVIRONMENT, text)
