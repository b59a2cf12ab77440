"""Whole layers of LMGC, and several of them one after another, as one function with its gradients."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from mimogc.graph import Graph
from mimogc.ops import native, native_layers
from mimogc.ops.functions import Propagate, second_order
from mimogc.ops.links import Links, links_of_layers
from mimogc.ops.native import Shape
from mimogc.ops.reference import separable_alpha


class Weights(NamedTuple):
    """The tensors of one layer."""

    weight: Tensor  # [K·C, F], the W^(k) stacked
    att: Tensor  # [2K, K·C], the v_k of the targets above those of the sources
    offset: Tensor | None  # [K], added to the scores
    edge: Tensor | None  # [E, K] score terms of the edges
    bias: Tensor | None  # [C]


class Settings(NamedTuple):
    """What is not learnt of one layer."""

    slope: float  # of the LeakyReLU
    gelu: bool  # whether the output is activated


class Layers(Function):
    """x ← act(Σ_k Ã^(k) x W^(k) + bias) for each layer in turn, on one graph.

    Takes x [N, F], or with rows [N] the few rows of which node i has row rows[i], and then the `Weights` of all layers,
    one behind the other. What Python and autograd cost is paid once, not once per layer.
    """

    @staticmethod
    def forward(
        ctx: Any,
        graph: Graph,
        settings: tuple[Settings, ...],
        rows: Tensor | None,
        x: Tensor,
        *tensors: Tensor | None,
    ) -> Tensor:
        weights = _weights(tensors)
        alike = all(own.edge is None for own in weights)
        links = links_of_layers(graph, len(weights), rows, x.size(0), alike)
        kept: list[Tensor | None] = []
        out = x
        for own, (slope, gelu), link in zip(weights, settings, links, strict=True):
            given = out
            out, h, st, derivative = _layer(given, own, graph, link, slope, gelu)
            kept += (given, h, st, derivative)
        ctx.save_for_backward(rows, x, *tensors, *kept)
        ctx.graph, ctx.settings, ctx.links = graph, settings, links
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        size = len(Weights._fields) * len(ctx.settings)
        rows, x, *saved = ctx.saved_tensors
        tensors, kept = saved[:size], saved[size:]
        layers = list(zip(_weights(tensors), ctx.settings, strict=True))
        if torch.is_grad_enabled():
            out = x if rows is None else x[rows]
            for own, (slope, gelu) in layers:
                out = _layer_by_parts(out, own, ctx.graph, slope)
                out = torch.nn.functional.gelu(out) if gelu else out
            return None, None, None, *second_order(out, (x, *tensors), g)
        needs, count = ctx.needs_input_grad[3:], len(Weights._fields)
        gradients: list[Tensor | None] = []
        grad: Any = g
        for number in reversed(range(len(layers))):
            if grad is None:  # nothing further down is learnt
                gradients[:0] = [None] * count
                continue
            own, (slope, _) = layers[number]
            before = 1 + count * number
            wanted = (any(needs[:before]), *needs[before : before + count])
            given, h, st, derivative = kept[4 * number : 4 * number + 4]
            result = _layer_grad(
                own, slope, given, h, st, derivative, grad.contiguous(), ctx.links[number], wanted
            )
            grad = result[0]
            gradients[:0] = result[1:]
        return None, None, None, grad, *gradients


def _weights(tensors: Iterable[Tensor | None]) -> list[Weights]:
    flat: list[Any] = list(tensors)
    size = len(Weights._fields)
    return [Weights(*flat[first : first + size]) for first in range(0, len(flat), size)]


def _layer(
    x: Tensor, own: Weights, graph: Graph, links: Links, slope: float, gelu: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """`native_layers.layer`, or the same in the other order."""
    x, own = x.contiguous(), _contiguous(own)
    narrow = links.parent is None and _narrow(graph, x, own.weight)
    if not narrow and native_layers.multiplies(own.weight):
        return native_layers.layer(x, None, own, slope, links, gelu)
    h = torch.nn.functional.linear(x, own.weight)
    if not narrow:
        return native_layers.layer(None, h, own, slope, links, gelu)
    out, st = _narrow_layer(x, own, graph, slope, h)
    out, derivative = _gelu(out) if gelu else (out, None)
    return out, h, st, derivative


def _layer_grad(
    own: Weights,
    slope: float,
    x: Tensor,
    h: Tensor,
    st: Tensor,
    derivative: Tensor | None,
    g: Tensor,
    links: Links,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients to x and to the weights, None where `needs` says so."""
    x, own = x.contiguous(), _contiguous(own)
    needs_x, needs_weight, _, needs_offset, needs_edge, needs_bias = needs
    given = x if native_layers.multiplies(own.weight) else None
    grad = native_layers.layer_grad(
        given, h, own, slope, st, derivative, g, links,
        (needs_x, needs_weight, needs_offset, needs_edge, needs_bias),
    )  # fmt: skip
    grad_x, grad_weight = grad.x, grad.weight
    if grad.h is not None:
        grad_x = torch.mm(grad.h, own.weight) if needs_x else None
        # On small graphs this is quicker than grad_hᵀ x.
        grad_weight = torch.mm(x.t(), grad.h).t() if needs_weight else None
    return grad_x, grad_weight, grad.att, grad.offset, grad.edge, grad.bias


def _contiguous(own: Weights) -> Weights:
    return Weights(*(None if tensor is None else tensor.contiguous() for tensor in own))  # type: ignore[arg-type]


# Gathering rows of x and multiplying by W afterwards reads K·C/F times fewer bytes per edge than gathering rows of h.
# It pays when h is larger than the last cache and there are enough edges per node to pay for the second product.
_CACHE_BYTES = 32 * 2**20
_NARROW_ROWS = 1024


def _narrow(graph: Graph, x: Tensor, weight: Tensor) -> bool:
    large = x.size(0) * weight.size(0) * x.element_size() > _CACHE_BYTES
    return large and graph.num_edges > 4 * graph.num_dst and x.size(1) < weight.size(0)


def _narrow_layer(x: Tensor, own: Weights, graph: Graph, slope: float, h: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_k (Ã^(k) X) W^(k) + bias, a block of rows at a time, and the scores."""
    weight, att, offset, edge, bias = own
    heads, width = att.size(0) // 2, x.size(1)
    st = native.scores(h, att, slope)
    s, t = st[:, :heads], st[:, heads:]
    if offset is not None:
        s += offset
    stacked = weight.view(heads, -1, width).transpose(1, 2).reshape(heads * width, -1)  # [K·F, C]
    out = x.new_empty(graph.num_dst, stacked.size(1))
    gathered = x.new_empty(min(_NARROW_ROWS, graph.num_dst), heads * width)
    for first in range(0, graph.num_dst, _NARROW_ROWS):
        rows = min(_NARROW_ROWS, graph.num_dst - first)
        native.tanh_sum_rows(s, t, edge, x, graph, Shape.SHARED_TO_HEADS, first, rows, gathered)
        torch.mm(gathered[:rows], stacked, out=out[first : first + rows])
    return out if bias is None else out.add_(bias), st


def _gelu(x: Tensor) -> tuple[Tensor, Tensor]:
    """GELU(x) and its derivative, as the kernel of the layer gives them."""
    distribution = torch.special.ndtr(x)
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * distribution, distribution + x * density


def _layer_by_parts(x: Tensor, own: Weights, graph: Graph, slope: float) -> Tensor:
    """A layer of functions that can be differentiated twice, without the activation."""
    weight, att, offset, edge, bias = own
    heads = att.size(0) // 2
    h = x @ weight.t()
    s, t = (torch.nn.functional.leaky_relu(h, slope) @ att.t()).split(heads, dim=1)
    alpha = separable_alpha(s if offset is None else s + offset, t, edge, graph)
    out: Tensor = Propagate.apply(alpha, _heads(h, heads), graph, Shape.HEADS_TO_SUM)
    return out if bias is None else out + bias


def _heads(h: Tensor, heads: int) -> Tensor:
    """[N, K·C] as [N, K, C], also for no nodes."""
    return h.view(h.size(0), heads, h.size(1) // heads)
