"""Small networks as one step of automatic differentiation.

`Sequential` is torch's own for chains of Linear, Tanh and ReLU, quicker on the CPU; it also takes
and gives NumPy arrays. `SideBySide` computes what calling several networks one after the other
computes. Of a small network's time most goes into bookkeeping between layers, into torch's tanh,
and into gradients that nobody asked for. Here all layers are one step, computed by NumPy in the
tensors' own memory, and only the gradients that are wanted are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.inference import Forward, numpy_forward

# With so few of the rows judged, leaving the others out pays for picking the rows.
_WORTH_PICKING = 0.75


@dataclass(slots=True)
class _Layer:
    """One layer's parameters and gradients, as tensors and as arrays in the same memory."""

    weight: Tensor
    transposed: Tensor
    bias: Tensor
    weight_array: np.ndarray
    weight_grad: np.ndarray | None
    bias_grad: Tensor | None
    bend: type[nn.Module] | None
    """what follows the layer: Tanh, ReLU or nothing"""


class Sequential(nn.Sequential):
    """torch's `nn.Sequential`, for chains of Linear layers, each followed by Tanh, ReLU or nothing.

    Given a tensor it gives a tensor, and `loss.backward()` reaches its parameters: the whole chain
    is one step of automatic differentiation on the CPU, and plain torch on a GPU. Given a NumPy
    array it gives an array, without gradients: that is how an agent acts.
    """

    # Plain attributes of the class, so that no instance registers them as parameters or modules.
    _on_arrays: Forward | None = None
    _side_by_side: SideBySide | None = None

    def forward(self, rows: Tensor | np.ndarray) -> Tensor | np.ndarray:
        """What the chain makes of each row; arrays give arrays, tensors give tensors."""
        if isinstance(rows, np.ndarray):
            # Made at the first use: by then the network is on its device.
            if self._on_arrays is None:
                self._on_arrays = numpy_forward(self)
            return self._on_arrays(rows)
        if _in_torch(rows):
            return super().forward(rows)
        if self._side_by_side is None:
            self._side_by_side = SideBySide(self)
        return self._side_by_side(rows)[0]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over: not the quick ways, which lead to this network's memory."""
        quick = ("_on_arrays", "_side_by_side")
        return {name: value for name, value in self.__dict__.items() if name not in quick}


class SideBySide:
    """Applies several networks to the same rows.

    On the CPU ``backward`` adds the gradients straight to the parameters' ``grad``; use it with
    ``loss.backward()``, not with ``torch.autograd.grad``.

    Args:
        networks: chains of Linear layers, each followed by Tanh, ReLU or nothing.
    """

    def __init__(self, *networks: nn.Sequential) -> None:
        self._networks = networks
        self._anchor = networks[0][0].weight
        self._bound_to = (0, 0)
        self._chains: list[list[_Layer]] = []

    def __call__(self, rows: Tensor, *, learn: bool = True) -> tuple[Tensor, ...]:
        """The output of each network.

        Args:
            rows: the inputs; they get a gradient when they ask for one.
            learn: whether the parameters get gradients too.
        """
        if _in_torch(rows):
            return tuple(_layer_by_layer(network, rows, learn) for network in self._networks)
        self._bind()
        if torch.is_grad_enabled():
            return _Step.apply(rows, self._anchor if learn else None, self._chains)
        return tuple(_forward(chain, rows)[-1] for chain in self._chains)

    def fit(self, rows: Tensor, target: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Add the gradient of each network's mean squared error to its parameters' ``grad``.

        The same as ``backward`` of these errors, without recording anything for it.

        Args:
            rows: the inputs, which get no gradient.
            target: what every network's only output should be, one number a row.

        Returns:
            The networks' outputs, and their errors.
        """
        if _in_torch(rows):
            outputs = tuple(output.squeeze(1) for output in self(rows))
            errors = tuple(nn.functional.mse_loss(output, target) for output in outputs)
            torch.stack(errors).sum().backward()
            return tuple(output.detach() for output in outputs), tuple(e.detach() for e in errors)
        self._bind()
        outputs, errors = (), ()
        with torch.no_grad():
            for chain in self._chains:
                values = _forward(chain, rows)
                gap = values[-1] - target.unsqueeze(1)
                outputs += (values[-1].squeeze(1),)
                errors += (gap.square().mean(),)
                _backward(chain, values, gap.mul_(2 / gap.shape[0]), True, False)
        return outputs, errors

    def _bind(self) -> None:
        """Find the parameters' memory again when an optimiser has moved them."""
        if _place(self._anchor) != self._bound_to:
            self._chains = [_chain(network) for network in self._networks]
            self._bound_to = _place(self._anchor)


def _in_torch(rows: Tensor) -> bool:
    """Whether the layers are left to torch: on a GPU, and where it compiles them."""
    return rows.device.type != "cpu" or torch.compiler.is_compiling()


def _layer_by_layer(network: nn.Sequential, rows: Tensor, learn: bool) -> Tensor:
    if learn:
        return network(rows)
    for layer in network:
        if isinstance(layer, nn.Linear):
            rows = nn.functional.linear(rows, layer.weight.detach(), layer.bias.detach())
        else:
            rows = layer(rows)
    return rows


def _place(parameter: nn.Parameter) -> tuple[int, int]:
    gradient = parameter.grad
    return parameter.data_ptr(), 0 if gradient is None else gradient.data_ptr()


def _chain(network: nn.Sequential) -> list[_Layer]:
    chain: list[_Layer] = []
    for item in network:
        if isinstance(item, nn.Linear):
            chain.append(_layer(item))
        else:
            chain[-1].bend = type(item)
    return chain


def _layer(linear: nn.Linear) -> _Layer:
    weight, bias = linear.weight.detach(), linear.bias.detach()
    weight_grad = bias_grad = None
    if linear.weight.requires_grad:
        for parameter in (linear.weight, linear.bias):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        weight_grad, bias_grad = linear.weight.grad.numpy(), linear.bias.grad
    return _Layer(weight, weight.t(), bias, weight.numpy(), weight_grad, bias_grad, None)


class _Step(torch.autograd.Function):
    """The second argument ties the step into the graph; the parameters' gradients bypass it."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, anchor: Tensor | None, chains: list[list[_Layer]]
    ) -> tuple[Tensor, ...]:
        ctx.chains = chains
        ctx.learn = anchor is not None
        ctx.values = [_forward(chain, rows) for chain in chains]
        ctx.set_materialize_grads(False)
        # Other tensors than those kept: an output knows its graph, and would keep itself alive.
        return tuple(values[-1].detach() for values in ctx.values)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, None, None]:
        to_rows = ctx.needs_input_grad[0]
        total: Tensor | None = None
        for chain, values, grad in zip(ctx.chains, ctx.values, grad_outputs, strict=True):
            if grad is None:
                continue
            if ctx.learn:
                grad = _backward(chain, values, grad, True, to_rows)
            else:
                grad = _backward_where_judged(chain, values, grad)
            total = grad if total is None or grad is None else total + grad
        return total, None, None


def _forward(chain: list[_Layer], rows: Tensor) -> list[Tensor]:
    """The rows and what each layer makes of them."""
    values = [rows]
    for layer in chain:
        hidden = _empty(rows.shape[0], layer.bias.shape[0])
        torch.addmm(layer.bias, values[-1], layer.transposed, out=hidden)
        if layer.bend is nn.Tanh:
            array = hidden.numpy()
            np.tanh(array, out=array)
        elif layer.bend is nn.ReLU:
            hidden.relu_()
        values.append(hidden)
    return values


def _backward(
    chain: list[_Layer], values: list[Tensor], grad: Tensor, learn: bool, to_rows: bool
) -> Tensor | None:
    """Add to the parameters' gradients if they learn; return the rows' if they want it."""
    if chain[-1].bend is not None:
        # Bends are applied in place, and this gradient is not ours.
        grad = grad.clone()
    for position in range(len(chain) - 1, -1, -1):
        layer, inputs, outputs = chain[position], values[position], values[position + 1]
        if layer.bend is nn.Tanh:
            array = grad.numpy()
            array *= 1.0 - np.square(outputs.numpy())
        elif layer.bend is nn.ReLU:
            torch.ops.aten.threshold_backward.grad_input(grad, outputs, 0.0, grad_input=grad)
        if learn:
            layer.bias_grad += grad.sum(dim=0)
            layer.weight_grad += grad.numpy().T @ inputs.numpy()
        if position == 0 and not to_rows:
            return None
        if grad.shape[1] == 1:
            grad = torch.mul(grad, layer.weight, out=_empty(*inputs.shape))
        else:
            grad = torch.from_numpy(grad.numpy() @ layer.weight_array)
    return grad


def _empty(rows: int, columns: int) -> Tensor:
    """Memory for a result, from NumPy: torch's would go back to the system after every use."""
    return torch.from_numpy(np.empty((rows, columns), np.float32))


def _backward_where_judged(chain: list[_Layer], values: list[Tensor], grad: Tensor) -> Tensor:
    """The rows' gradient; rows without a say, as where another critic was smaller, are left out."""
    judged = grad.any(dim=1).nonzero().squeeze(1)
    if judged.shape[0] > _WORTH_PICKING * grad.shape[0]:
        return _backward(chain, values, grad, False, True)
    picked = [value[judged] for value in values]
    result = torch.zeros_like(values[0])
    result[judged] = _backward(chain, picked, grad[judged], False, True)
    return result
