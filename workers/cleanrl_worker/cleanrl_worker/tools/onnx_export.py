"""Writes a trained policy as an ONNX graph with a model card, after checking it.

The graph takes observations as the environment gives them: normalisation is part of it. Its
output `action` is the policy's best action; `scores` are logits or action values where actions are
discrete. It counts as written only after it has given the policy's own actions for a thousand
observations of played episodes.
"""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.device import limit_threads
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy
from cleanrl_worker.kit.normalize import NormalizeObservation
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.types import Array, Environments, StateDict
from cleanrl_worker.kit.weights import load_weights
from cleanrl_worker.running.evaluation import TrainedPolicy, open_policy
from mosaic.config.json_types import JsonValue
from mosaic.system import atomic

CHECKED_OBSERVATIONS = 1000
# ONNX Runtime adds numbers in another order than torch and NumPy do.
_TOLERANCE = 1e-4
_MODEL, _CARD = "model.onnx", "README.md"


class _Scores(nn.Module):
    """From observations to one number for each action, and the best action."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.network(obs)
        return scores.argmax(-1), scores


class _Expected(nn.Module):
    """The mean return of each action, where the network gives a distribution of returns."""

    atoms: Tensor

    def __init__(self, network: nn.Module, atoms: Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("atoms", atoms)

    def forward(self, obs: Tensor) -> Tensor:
        logits: Tensor = self.network(obs).unflatten(1, (-1, len(self.atoms)))
        return (logits.softmax(-1) * self.atoms).sum(-1)


class Normalized(nn.Module):
    """The observations' statistics of training, frozen, in front of a network."""

    mean: Tensor
    spread: Tensor

    def __init__(self, network: nn.Module, statistics: NormalizeObservation) -> None:
        super().__init__()
        self.network = network
        # As in `NormalizeObservation.normalize`, which computes in double precision.
        self.register_buffer("mean", torch.from_numpy(np.asarray(statistics.rms.mean)))
        spread = np.sqrt(np.asarray(statistics.rms.var) + statistics.epsilon)
        self.register_buffer("spread", torch.from_numpy(spread))
        self.clip = statistics.clip

    def forward(self, obs: Tensor) -> Tensor:
        scaled = (obs.double() - self.mean) / self.spread
        answer: Tensor = self.network(scaled.clamp(-self.clip, self.clip).float())
        return answer


class _ScaledNetwork(Protocol):
    """An algorithm's actor, as far as it is taken over."""

    network: nn.Module
    scale: Tensor
    centre: Tensor


class _Actor(nn.Module):
    """A network whose answers are brought into the action range."""

    scale: Tensor
    centre: Tensor

    def __init__(self, actor: _ScaledNetwork) -> None:
        super().__init__()
        self.network = _plain(actor.network)
        self.register_buffer("scale", actor.scale)
        self.register_buffer("centre", actor.centre)


class Squashed(_Actor):
    """The mean action of a Gaussian that tanh squashes into the action range."""

    def forward(self, obs: Tensor) -> Tensor:
        mean: Tensor = self.network(obs).chunk(2, dim=1)[0]
        return mean.tanh() * self.scale + self.centre


class _Scaled(_Actor):
    """The action of a deterministic actor."""

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.network(obs)
        return action * self.scale + self.centre


def export(policy: Path, out: Path, about: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Write `model.onnx` and its model card into a folder.

    Args:
        policy: A `.cleanrl_model` file.
        out: The folder; it must not have a model yet.
        about: Facts about the run for the model card.

    Raises:
        UsageError: The policy has a memory or is not of torch, the packages are missing, or the
            graph does not give the policy's actions.
    """
    runtime = _packages()
    limit_threads(1)
    trained = open_policy(policy)
    envs = trained.make_envs(1)
    try:
        graph, discrete = policy_graph(trained, envs)
        acts = trained.rebuild(envs)
        observations = _observe(envs, acts)
        names = ["action", "scores"] if discrete else ["action"]
        out.mkdir(parents=True, exist_ok=True)
        # Under another name until it is checked: a file of this name has been.
        unchecked = out / f"unchecked-{_MODEL}"
        _write(graph, observations[:2], unchecked, names)
        worst = _check(runtime, unchecked, acts, observations, discrete)
        unchecked.rename(out / _MODEL)
    finally:
        envs.close()
    facts: dict[str, JsonValue] = {
        "algorithm": trained.module.__name__.rpartition(".")[2],
        "env_id": str(trained.args.env_id),
        "input": f"{observations.dtype} (batch, {', '.join(map(str, observations.shape[1:]))})",
        "outputs": ", ".join(names),
        "checked_observations": len(observations),
        "largest_difference": worst,
    }
    atomic.write_text(out / _CARD, _card({**about, **facts}, discrete))
    return {**facts, "path": str(out / _MODEL)}


def _packages() -> ModuleType:
    # It would report what it loads to its maker, and keep an id of this machine to do so.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnx  # noqa: F401  torch's exporter needs it, and says so less clearly
        import onnxruntime
    except ModuleNotFoundError as error:
        raise UsageError(
            f"ONNX needs the package {error.name}; install it with: mosaic extras onnx"
        ) from None
    package: ModuleType = onnxruntime
    return package


def _plain(network: nn.Module) -> nn.Module:
    """The layers without our quick ways through them, which a graph cannot show."""
    return nn.Sequential(*network) if isinstance(network, nn.Sequential) else network


def policy_graph(trained: TrainedPolicy, envs: Environments) -> tuple[nn.Module, bool]:
    """The policy as one module from observations to actions, and whether those are discrete."""
    module, model = trained.module, trained.model
    network: nn.Module | None = None
    if "agent" in model and hasattr(module, "torch"):
        make = getattr(module, "make_agent", None) or getattr(module, "Agent", None)
        # One that needs more than its environments has a memory, whose length is an argument.
        agent = None
        if make is not None and len(inspect.signature(make).parameters) == 1:
            agent = make(envs)
        if agent is not None and not hasattr(agent, "lstm"):
            agent.load_state_dict(model["agent"])
            network = _of_agent(agent)
            if network is not None and hasattr(agent, "actor_mean"):
                return _with_statistics(network, envs, model).eval(), False
    elif "q_network" in model and hasattr(module, "QNetwork") and hasattr(module, "torch"):
        network = _of_values(trained, envs)
    elif "actor" in model and hasattr(module, "Actor") and hasattr(module, "torch"):
        actor = module.Actor(envs)
        load_weights(actor, model["actor"])
        wide = actor.network(torch.zeros(1, *envs.single_observation_space.shape)).shape[1]
        return (Squashed(actor) if wide == 2 * len(actor.scale) else _Scaled(actor)).eval(), False
    if network is None:
        raise UsageError(
            f"A policy of {module.__name__.rpartition('.')[2]} cannot be written as ONNX: only "
            "torch's feed-forward policies can (PPO, RPO, bc, DQN, C51, PQN, SAC, TD3, DDPG)."
        )
    return _Scores(network).eval(), True


def _of_agent(agent: object) -> nn.Module | None:
    if hasattr(agent, "actor_mean"):
        return _plain(agent.actor_mean)
    actor: nn.Module | None = getattr(agent, "actor", None)
    if actor is None:
        return None
    for trunk in ("network", "trunk"):
        if hasattr(agent, trunk):
            return nn.Sequential(_plain(getattr(agent, trunk)), _plain(actor))
    return _plain(actor)


def _of_values(trained: TrainedPolicy, envs: Environments) -> nn.Module | None:
    made = trained.module.QNetwork
    takes_args = "args" in made.__init__.__annotations__
    q_network = made(envs, trained.args) if takes_args else made(envs)
    if not hasattr(q_network, "network") or hasattr(q_network, "lstm"):
        return None
    load_weights(q_network, trained.model["q_network"])
    network = _plain(q_network.network)
    return _Expected(network, q_network.atoms) if hasattr(q_network, "atoms") else network


def _with_statistics(network: nn.Module, envs: Environments, model: StateDict) -> nn.Module:
    if "obs_rms" not in model:
        return network
    statistics = NormalizeObservation(envs)
    statistics.rms.load_state_dict(model["obs_rms"])
    return Normalized(network, statistics)


def _observe(envs: Environments, acts: Policy) -> Array:
    """A thousand observations of episodes that the policy plays, some actions taken at random."""
    rng = Random(1, "onnx")
    obs = envs.reset(seed=1)
    rows: list[Array] = []
    while len(rows) < CHECKED_OBSERVATIONS:
        rows.append(obs[0].copy())
        # Sampled: the best actions alone would see a small part of the world.
        obs, *_ = envs.step(acts(obs, rng, False))
    return np.stack(rows)


def _write(graph: nn.Module, sample: Array, path: Path, names: list[str]) -> None:
    with warnings.catch_warnings():
        # The exporter that needs no further packages is called legacy by torch.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            graph,
            (torch.from_numpy(sample),),
            str(path),
            input_names=["observation"],
            output_names=names,
            dynamic_axes={name: {0: "batch"} for name in ("observation", *names)},
            dynamo=False,
        )


def _check(
    runtime: ModuleType, path: Path, acts: Policy, observations: Array, discrete: bool
) -> float:
    """Compare the graph with the policy itself; the largest difference of two actions."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(["action"], {"observation": observations})[0]
    # One at a time, as the policy acts.
    own = np.concatenate([acts(row[None], Random(1), True) for row in observations])
    if discrete:
        wrong = int((found != own).sum())
        worst = float(wrong)
    else:
        worst = float(np.abs(found - own).max())
        wrong = int((np.abs(found - own).max(axis=-1) > _TOLERANCE).sum())
    if wrong:
        path.unlink()
        raise UsageError(
            f"The graph gives another action than the policy for {wrong} of "
            f"{len(observations)} observations, so it was not kept."
        )
    return worst


def _card(facts: Mapping[str, JsonValue], discrete: bool) -> str:
    """A model card as the Hugging Face Hub reads it."""
    score = facts.get("mean_return")
    result = ""
    if isinstance(score, int | float):
        result = (
            "model-index:\n"
            f"- name: {facts['algorithm']}\n"
            "  results:\n"
            "  - task: {type: reinforcement-learning, name: reinforcement-learning}\n"
            f"    dataset: {{name: {facts['env_id']}, type: {facts['env_id']}}}\n"
            f"    metrics:\n    - {{type: mean_reward, value: {score:.2f}, name: mean_reward}}\n"
        )
    rows = "\n".join(
        f"| {name.replace('_', ' ')} | {json.dumps(value) if isinstance(value, dict) else value} |"
        for name, value in facts.items()
        if value not in (None, "", {})
    )
    scores = "\nscores, = session.run(['scores'], {'observation': batch})" if discrete else ""
    return f"""---
library_name: onnx
tags:
- {facts["env_id"]}
- {facts["algorithm"]}
- reinforcement-learning
- mosaic
{result}---

# {facts["algorithm"]} on {facts["env_id"]}

A policy trained with MOSAIC. The graph takes observations as the environment gives them; the
normalisation of training is part of it.

```python
import onnxruntime  # reports its use to its maker unless ORT_DISABLE_TELEMETRY=1 is set

session = onnxruntime.InferenceSession("{_MODEL}")
action, = session.run(["action"], {{"observation": batch}}){scores}
```

Before it was written, it gave the policy's own actions for {facts["checked_observations"]:,}
observations of played episodes (onnxruntime on the CPU).

| | |
|---|---|
{rows}
"""
