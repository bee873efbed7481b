"""The configuration of a game, ready to submit."""

from __future__ import annotations

from typing import Any

from mosaic.telemetry.play.keys import parse_script


def play_config(
    env_id: str,
    seed: int = 1,
    script: str = "",
    fps: float | None = None,
    env_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A `TrainRunConfig` document for the play worker.

    Args:
        env_id: Any Gymnasium environment that draws pictures.
        seed: The seed of the first episode; each further one adds 1.
        script: The text of a key script; empty for a person at the keys.
        fps: Steps a second; a script runs as fast as it can without it.
        env_kwargs: Arguments for the environment.

    Raises:
        KeyScriptError: The script has a line that cannot be read.
    """
    extras: dict[str, Any] = {}
    if script:
        parse_script(script)
        extras["script"] = script
    if fps:
        extras["fps"] = float(fps)
    if env_kwargs:
        extras["env_kwargs"] = env_kwargs
    return {
        "run_name": f"play {env_id}",
        "artifacts": {},
        "metadata": {
            "worker": {
                "type": "human",
                "module": "mosaic.telemetry.play.worker",
                "config": {"algo": "human", "env_id": env_id, "seed": seed, "extras": extras},
            }
        },
    }
