"""Small networks as one step of automatic differentiation.

`Sequential` is torch's own for chains of Linear, Tanh and ReLU, quicker on the CPU; it also takes
and gives NumPy arrays. Of a small network's time much goes into bookkeeping between layers, into
torch's tanh and its products of narrow matrices, and into gradients that are not needed. Here all
layers are one step, computed in the tensors' own memory, and only the gradients that are asked for
are computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from cleanrl_worker.kit.inference import Forward, numpy_forward

# With so few of the rows judged, leaving the others out pays for picking the rows.
_WORTH_PICKING = 0.75


@dataclass(slots=True)
class _Layer:
    """One layer's parameters and gradients, in the parameters' own memory."""

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
    is one step of automatic differentiation on the CPU, and plain torch on a GPU. Gradients go
    straight to the parameters' `grad`, so `torch.autograd.grad` does not see them, and
    `backward(inputs=...)` gives them to all parameters of a network or to none.

    Given a NumPy array it gives an array, without gradients: that is how an agent acts.
    """

    # Plain attributes of the class, so that no instance registers them as parameters or modules.
    _on_arrays: Forward | None = None
    _chain: _Chain | None = None

    def forward(self, rows: Tensor | np.ndarray) -> Tensor | np.ndarray:
        """What the chain makes of each row; arrays give arrays, tensors give tensors."""
        if isinstance(rows, np.ndarray):
            # Made at the first use: by then the network is on its device.
            if self._on_arrays is None:
                self._on_arrays = numpy_forward(self)
            return self._on_arrays(rows)
        if _in_torch(rows):
            return super().forward(rows)
        if self._chain is None:
            self._chain = _Chain(self)
        return self._chain(rows)

    def __getstate__(self) -> dict[str, object]:
        """What a copy takes over: not the quick ways, which lead to this network's memory."""
        quick = ("_on_arrays", "_chain")
        return {name: value for name, value in self.__dict__.items() if name not in quick}


def _in_torch(rows: Tensor) -> bool:
    """Whether the layers are left to torch: on a GPU, and where it compiles them."""
    return not rows.is_cpu or torch.compiler.is_compiling()


class _Chain:
    """The layers of one network, bound to where its parameters are in memory."""

    def __init__(self, network: nn.Sequential) -> None:
        self._network = network
        # One parameter is enough to tie the step into the graph; the gradients of all bypass it.
        self._anchor = network[0].weight
        self._bound_to = (0, 0)
        self._layers: list[_Layer] = []

    def __call__(self, rows: Tensor) -> Tensor:
        if _place(self._anchor) != self._bound_to:
            # An optimiser has moved the parameters.
            self._layers = _bind(self._network)
            self._bound_to = _place(self._anchor)
        if torch.is_grad_enabled():
            return _Step.apply(rows, self._anchor, self._layers)
        return _forward(self._layers, rows)[-1]


def _place(parameter: nn.Parameter) -> tuple[int, int]:
    gradient = parameter.grad
    return parameter.data_ptr(), 0 if gradient is None else gradient.data_ptr()


def _bind(network: nn.Sequential) -> list[_Layer]:
    layers: list[_Layer] = []
    for item in network:
        if isinstance(item, nn.Linear):
            layers.append(_layer(item))
        else:
            layers[-1].bend = type(item)
    return layers


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
    """All layers at once; the second argument is the anchor."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, anchor: Tensor, layers: list[_Layer]) -> Tensor:
        ctx.layers = layers
        ctx.values = _forward(layers, rows)
        ctx.set_materialize_grads(False)
        # Another tensor than the one kept: an output knows its graph, and would keep itself alive.
        return ctx.values[-1].detach()

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor | None) -> tuple[Tensor | None, None, None]:
        if grad is None:
            return None, None, None
        layers, values = ctx.layers, ctx.values
        learn, to_rows = _asked_to_learn(ctx), ctx.needs_input_grad[0]
        if learn or not to_rows:
            return _backward(layers, values, grad, learn, to_rows), None, None
        return _backward_where_judged(layers, values, grad), None, None


def _asked_to_learn(ctx: FunctionCtx) -> bool:
    """Whether the parameters' gradients are wanted: `backward(inputs=...)` may leave them out."""
    anchor = ctx.next_functions[1][0]
    return anchor is not None and torch._C._will_engine_execute_node(anchor)


def _forward(layers: list[_Layer], rows: Tensor) -> list[Tensor]:
    """The rows and what each layer makes of them."""
    values = [rows]
    for layer in layers:
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
    layers: list[_Layer], values: list[Tensor], grad: Tensor, learn: bool, to_rows: bool
) -> Tensor | None:
    """Add to the parameters' gradients if they learn; return the rows' if they want it."""
    grad = grad.clone()
    for position in range(len(layers) - 1, -1, -1):
        layer, inputs, outputs = layers[position], values[position], values[position + 1]
        if layer.bend is nn.Tanh:
            array = grad.numpy()
            array *= 1.0 - np.square(outputs.numpy())
        elif layer.bend is nn.ReLU:
            torch.ops.aten.threshold_backward.grad_input(grad, outputs, 0.0, grad_input=grad)
        if learn:
            layer.bias_grad += grad.sum(dim=0)
            # NumPy multiplies these narrow matrices up to ten times faster than torch.
            layer.weight_grad += grad.numpy().T @ inputs.numpy()
        if position == 0 and not to_rows:
            return None
        if grad.shape[1] == 1:
            grad = torch.mul(grad, layer.weight, out=_empty(*inputs.shape))
        else:
            grad = torch.from_numpy(grad.numpy() @ layer.weight_array)
    return grad


def _backward_where_judged(layers: list[_Layer], values: list[Tensor], grad: Tensor) -> Tensor:
    """The rows' gradient; rows without a say, as where another critic was smaller, are left out."""
    judged = grad.any(dim=1).nonzero().squeeze(1)
    if judged.shape[0] > _WORTH_PICKING * grad.shape[0]:
        return _backward(layers, values, grad, False, True)
    # `index_select`, because picking by `value[judged]` takes five times as long.
    picked = [value.index_select(0, judged) for value in values]
    result = torch.zeros_like(values[0])
    inner = _backward(layers, picked, grad.index_select(0, judged), False, True)
    return result.index_copy_(0, judged, inner)


def _empty(rows: int, columns: int) -> Tensor:
    """Memory for a result, from NumPy: torch's would go back to the system after every use."""
    return torch.from_numpy(np.empty((rows, columns), np.float32))
