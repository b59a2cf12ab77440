"""The end of a graph regressor as one function: sums per graph, a linear map with GELU, a linear map to a number."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.ops import native, native_layers
from mimogc.ops.functions import second_order

# The kernel has one thread and no blocks: above so many multiply-adds torch is quicker.
_LARGEST_WORK = 2**20


def readout(
    h: Tensor, owner: Tensor, size: int, weight: Tensor, bias: Tensor, last: Tensor, offset: Tensor
) -> Tensor:
    """[B] ``last · GELU(weight Σ h_n + bias) + offset``, the sum over the rows n of each of B = `size` graphs.

    Args:
        h: ``[N, C]`` features.
        owner: ``[N]`` int64, the graph of each row.
        size: the number of graphs.
        weight: ``[H, C]``.
        bias: ``[H]``.
        last: ``[1, H]``.
        offset: ``[1]``.
    """
    small = size * weight.numel() <= _LARGEST_WORK
    plain = torch.compiler.is_compiling() or torch.is_autocast_enabled(h.device.type)
    if plain or not small or not native.available(h):
        return _by_parts(h, owner, size, weight, bias, last, offset)
    out: Tensor = Readout.apply(h, owner, size, weight, bias, last, offset)
    return out


def _by_parts(
    h: Tensor, owner: Tensor, size: int, weight: Tensor, bias: Tensor, last: Tensor, offset: Tensor
) -> Tensor:
    pooled = h.new_zeros(size, h.size(1)).index_add(0, owner, h)
    return F.linear(F.gelu(F.linear(pooled, weight, bias)), last, offset).squeeze(1)


class Readout(Function):
    """`readout` with its gradients."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, owner: Tensor, size: int, *weights: Tensor) -> Tensor:
        given = [tensor.contiguous() for tensor in (h, owner, *weights)]
        out, pooled, active, derivative = native_layers.readout(given[0], given[1], size, *given[2:])
        ctx.save_for_backward(h, owner, *weights, pooled, active, derivative)
        ctx.size = size
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        h, owner, weight, bias, last, offset, pooled, active, derivative = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = _by_parts(h, owner, ctx.size, weight, bias, last, offset)
            grad_h, *grads = second_order(out, (h, weight, bias, last, offset), g)
            return grad_h, None, None, *grads
        owner, weight, last, g = (tensor.contiguous() for tensor in (owner, weight, last, g))
        grad_h, *others = native_layers.readout_grad(owner, weight, last, pooled, active, derivative, g)
        needs = ctx.needs_input_grad[3:]
        return grad_h, None, None, *(grad if need else None for grad, need in zip(others, needs, strict=True))
