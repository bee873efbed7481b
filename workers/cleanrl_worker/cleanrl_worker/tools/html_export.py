"""Writes a trained policy as one HTML page that plays it in a browser, without a server.

The page holds the network's weights and the physics of the environment, both as plain JavaScript.
It also holds steps that the policy took here, and checks itself against them when it is opened.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import nn

from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.envs import make_env
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running.evaluation import open_policy
from cleanrl_worker.tools import onnx_export
from mosaic.config.json_types import JsonValue
from mosaic.system import atomic

# Environments whose physics the page has.
_PLAYABLE = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0")
_RECORDED_STEPS = 200
_PAGE = Path(__file__).with_name("policy_page.html")


def export(policy: Path, out: Path, about: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Write the page.

    Args:
        policy: A `.cleanrl_model` file.
        out: The file to write.
        about: Facts about the run, shown below the picture.

    Raises:
        UsageError: The page has no physics for the environment, or the policy is not a chain of
            layers.
    """
    limit_threads(1)
    trained = open_policy(policy)
    env_id = str(trained.args.env_id)
    if env_id not in _PLAYABLE:
        raise UsageError(
            f"A page can play {', '.join(_PLAYABLE)}; {env_id} needs more than a browser has."
        )
    envs = trained.make_envs(1)
    try:
        graph, discrete = onnx_export.policy_graph(trained, envs)
        acts = trained.rebuild(envs)
    finally:
        envs.close()
    algorithm = trained.module.__name__.rpartition(".")[2]
    document: dict[str, JsonValue] = {
        "env_id": env_id,
        "discrete": discrete,
        **_chain(graph, algorithm),
        "recorded": _recorded(env_id, acts),
    }
    title = html.escape(f"{algorithm} on {env_id}")
    said = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in about.items()
        if name in ("run_id", "seed", "steps", "mean_return") and value is not None
    )
    page = _PAGE.read_text(encoding="utf-8")
    for mark, text in (
        ("{{TITLE}}", title),
        ("{{ABOUT}}", html.escape(said)),
        # Inside a script element only this sequence would end it.
        ("{{POLICY}}", json.dumps(document).replace("</", "<\\/")),
    ):
        page = page.replace(mark, text)
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(out, page)
    return {"path": str(out), "algorithm": algorithm, "env_id": env_id}


def _chain(graph: object, algorithm: str) -> dict[str, JsonValue]:
    """The layers with their weights, and what comes before and after them."""
    network = getattr(graph, "network", None)
    before: JsonValue = None
    owner = graph if isinstance(graph, onnx_export.Normalized) else network
    if isinstance(owner, onnx_export.Normalized):
        before = {
            "mean": owner.mean.tolist(),
            "spread": owner.spread.tolist(),
            "clip": owner.clip,
        }
        network = owner.network
    layers: list[JsonValue] = []
    for layer in network if isinstance(network, nn.Sequential) else ():
        if isinstance(layer, nn.Linear):
            weights, bias = layer.weight.detach(), layer.bias.detach()
            layers.append({"weights": weights.tolist(), "bias": bias.tolist()})
        elif isinstance(layer, nn.Tanh | nn.ReLU):
            layers.append({"bend": "tanh" if isinstance(layer, nn.Tanh) else "relu"})
        else:
            layers = []
            break
    if not layers:
        raise UsageError(
            f"A policy of {algorithm} is no chain of plain layers, which a page needs: PPO, RPO, "
            "bc, DQN, SAC, TD3 and DDPG on vectors can be written."
        )
    after: JsonValue = None
    scale, centre = getattr(graph, "scale", None), getattr(graph, "centre", None)
    if scale is not None and centre is not None:
        squashed = isinstance(graph, onnx_export.Squashed)
        after = {"scale": scale.tolist(), "centre": centre.tolist(), "tanh": squashed}
    return {"before": before, "layers": layers, "after": after}


def _recorded(env_id: str, acts: Policy) -> list[JsonValue]:
    """Steps of the environment itself, in double precision, for the page to check itself."""
    env = make_env(env_id)
    rows: list[JsonValue] = []
    obs, _ = env.reset(seed=1)
    for _ in range(_RECORDED_STEPS):
        state = np.asarray(env.unwrapped.get_wrapper_attr("state"), np.float64)
        action = acts(np.asarray(obs, np.float32)[None], Random(1), True)[0]
        chosen = int(action) if np.ndim(action) == 0 else np.asarray(action, np.float32)
        obs, _, terminated, truncated, _ = env.step(chosen)
        following = np.asarray(env.unwrapped.get_wrapper_attr("state"), np.float64)
        rows.append(
            {
                "state": state.tolist(),
                "action": np.asarray(action).tolist(),
                "following": following.tolist(),
            }
        )
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    return rows
