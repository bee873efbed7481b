"""QDagger in JAX: the same promises as its torch form, around small networks."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.atari import AtariEnvs
from mutants import reference
from mutants.families.qdagger import (
    FORMS,
    LOSS,
    PHASES,
    SHARED,
    Form,
    fresh,
)
from mutants.harmless import Harmless
from mutants.subject import Check, Mutant, Subject
from mutants.trial import Turn

FILE = "cleanrl/qdagger_dqn_atari_jax_impalacnn.py"
_PIXELS = 4 * 84 * 84


def _small_teacher(module: Any) -> dict[str, Tensor]:
    """Linear networks in place of both convolutional ones: compiling those takes many seconds."""
    import jax

    def init(envs: Any, key: Any) -> Any:
        return {"kernel": 0.02 * jax.random.normal(key, (_PIXELS, int(envs.single_action_space.n)))}

    def values(params: Any, obs: Any) -> Any:
        return (obs.reshape(len(obs), -1) / 255.0) @ params["kernel"]

    module.init_q_network = module.init_teacher = init
    module.q_values = module.teacher_values = values
    generator = torch.Generator().manual_seed(7)
    return {"['kernel']": 0.02 * torch.randn(_PIXELS, 4, generator=generator)}


def _kernel(state: Any) -> list[Tensor]:
    return [torch.from_numpy(np.array(state["kernel"]))]


def _values(parameters: list[Tensor], obs: Tensor) -> Tensor:
    return (obs.flatten(1) / 255) @ parameters[0]


def _gradient(turn: Turn) -> Tensor:
    return _kernel(reference.learned_tree(turn))[0].flatten()


FORMS[FILE] = Form(_small_teacher, _values, _kernel, _gradient)


class _SamePool(nn.Module):
    """The largest of each 3 x 3 window, half as many; an odd margin is below and to the right."""

    def forward(self, maps: Tensor) -> Tensor:
        first = maps.shape[-1] % 2
        padded = nn.functional.pad(maps, (first, 1, first, 1), value=-torch.inf)
        return nn.functional.max_pool2d(padded, 3, 2)


def _conv(layer: Any) -> tuple[Tensor, Tensor]:
    weight = torch.from_numpy(np.array(layer["kernel"])).permute(3, 2, 0, 1)
    return weight, torch.from_numpy(np.array(layer["bias"]))


def _dense(layer: Any, channels: int = 0) -> tuple[Tensor, Tensor]:
    weight = torch.from_numpy(np.array(layer["kernel"])).T
    if channels:  # JAX has the channels of a picture last
        side = round((weight.shape[1] / channels) ** 0.5)
        weight = weight.unflatten(1, (side, side, channels)).permute(0, 3, 1, 2).flatten(1)
    return weight, torch.from_numpy(np.array(layer["bias"]))


def _student_layers(params: Any) -> list[tuple[Tensor, Tensor]]:
    layers = []
    for sequence in params["trunk"]["sequences"]:
        layers.append(_conv(sequence["entry"]))
        layers += [_conv(layer) for block in sequence["blocks"] for layer in block]
    return [*layers, _dense(params["trunk"]["hidden"], 32), _dense(params["head"])]


def _teacher_layers(params: Any) -> list[tuple[Tensor, Tensor]]:
    convolutions = [_conv(layer) for layer in params["trunk"]["convs"]]
    return [*convolutions, _dense(params["trunk"]["hidden"], 64), _dense(params["head"])]


def the_networks_are_those_of_the_papers(subject: Subject) -> None:
    """With the same weights the same values as plain networks give: the student has IMPALA's deep
    trunk, the teacher the network of DQN. Weights begin as LeCun's, each layer with its own."""
    import jax

    module, envs = fresh(subject), AtariEnvs("mosaic/Catch-v0", 1)
    obs = torch.randint(256, (2, 4, 84, 84), generator=torch.Generator().manual_seed(0))
    trunk = reference.impala_trunk(4, 84)
    for place, layer in enumerate(trunk):
        if isinstance(layer, nn.MaxPool2d):
            trunk[place] = _SamePool()
    for init, values, layers_of, plain in (
        (
            module.init_q_network,
            module.q_values,
            _student_layers,
            nn.Sequential(trunk, nn.Linear(256, 4)),
        ),
        (
            module.init_teacher,
            module.teacher_values,
            _teacher_layers,
            reference.nature_cnn(4),
        ),
    ):
        params = init(envs, jax.random.key(0))
        layers = layers_of(params)
        tensors = [tensor for layer in layers for tensor in layer]
        reference.load(plain, {str(number): tensor for number, tensor in enumerate(tensors)})
        with torch.no_grad():
            expected = plain(obs / 255)
        reached = values(params, obs.numpy().astype(np.uint8))
        np.testing.assert_allclose(reached, expected, rtol=1e-3, atol=1e-4)
        for weight, bias in layers:
            np.testing.assert_allclose(weight.std(), weight[0].numel() ** -0.5, rtol=0.15)
            assert not bias.any()
        drawn = [np.array(part).ravel() for part in jax.tree.leaves(params) if part.ndim > 1]
        for one, other in combinations(drawn, 2):
            # Two that were drawn with the same key begin with the same numbers.
            size = min(len(one), len(other))
            assert abs(np.corrcoef(one[:size], other[:size])[0, 1]) < 0.3


NETWORKS: tuple[Check, ...] = (the_networks_are_those_of_the_papers,)
# All compile programs of their own.
MUTANTS = [
    *(Mutant(FILE, *edit) for edit in SHARED),
    Mutant(FILE, ' * (1 - data["dones"])', "", "the future counts after the end", LOSS),
    Mutant(
        FILE,
        'q_values(target_params, data["next_obs"])',
        'q_values(params, data["next_obs"])',
        "no target network",
        LOSS,
    ),
    Mutant(
        FILE,
        'teacher_values(teacher_params, data["obs"]) / args.temperature',
        'teacher_values(teacher_params, data["obs"])',
        "the teacher's choice is not softened",
        LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + distill_coeff * distill_loss",
        "q_loss",
        "the student does not imitate",
        LOSS,
    ),
    Mutant(
        FILE,
        "q_loss + distill_coeff * distill_loss",
        "distill_coeff * distill_loss",
        "the student only imitates",
        LOSS,
    ),
    Mutant(
        FILE,
        "-(teacher_pi * student_log_pi)",
        "(teacher_pi * student_log_pi)",
        "the student avoids what the teacher does",
        LOSS,
    ),
    Mutant(
        FILE,
        "q_network.value, target_network.value, args.tau",
        "q_network.value, target_network.value, 1.0",
        "tau is ignored",
        PHASES,
    ),
    Mutant(
        FILE,
        '        teacher.load_state_dict(model["q_network"])\n',
        "",
        "an untrained teacher teaches",
        LOSS,
    ),
    Mutant(
        FILE,
        "maps = maps + convolve(second",
        "maps = convolve(second",
        "no shortcut around the residual blocks",
        NETWORKS,
    ),
]
HARMLESS = [
    Harmless(
        "keys = jax.random.split(trunk_key, 4)",
        "4",
        "8",
        "four keys are left over",
        ("qdagger_dqn_atari_jax_impalacnn",),
    ),
    Harmless(
        "dense(keys[3], 7 * 7 * 64, 512)",
        "3",
        "6",
        "beyond the end JAX takes the last key, which is this one",
        ("qdagger_dqn_atari_jax_impalacnn",),
    ),
]
