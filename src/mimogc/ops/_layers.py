"""Whole layers of LMGC, and several of them one after another, as one function with its gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers, _thresholds
from mimogc.ops._backends import serving
from mimogc.ops._checks import autocast
from mimogc.ops._functions import PropagateTanh
from mimogc.ops._layer_checks import check, check_between, check_rows, fit
from mimogc.ops._links import links_of_layers
from mimogc.ops._native_layers import Weights
from mimogc.ops._operators import propagate_tanh
from mimogc.ops._stacks import Between, Layer, Stack, Tensors


@dataclass(frozen=True)
class Settings(Layer):
    """What is not learnt of one layer, whose tensors are `Weights`."""

    slope: float  # of the LeakyReLU
    gelu: bool  # whether the output is activated

    size, kept, activates = len(Weights._fields), 3, True

    def forward(self, x: Tensor, own: Any, graph: Graph, link: Any) -> tuple[Tensor, Tensors]:
        """It keeps h (none in the narrow order), the scores, and the derivative of GELU."""
        own, h = Weights(*own), None
        if not link.parent and _narrow(graph, x, own.weight, own.att.size(0) // 2):
            out, st, derivative = _native_layers.narrow_layer(x, own, self.slope, link, self.gelu)
        elif _native_layers.multiplies(own.weight):
            out, h, st, derivative = _native_layers.layer(x, None, own, self.slope, link, self.gelu)
        else:
            product = F.linear(x, own.weight)
            out, h, st, derivative = _native_layers.layer(None, product, own, self.slope, link, self.gelu)
        return out, (h, st, derivative)

    def grad(
        self, x: Tensor, own: Any, kept: Tensors, g: Tensor, graph: Graph, link: Any, needs: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        own, (h, st, derivative) = Weights(*own), kept
        if h is None:
            found = _native_layers.narrow_layer_grad(x, own, self.slope, st, derivative, g, link, needs)
            return found.x, found.weight, found.att, found.offset, found.edge, found.bias
        given = x if _native_layers.multiplies(own.weight) else None
        grad = _native_layers.layer_grad(given, h, own, self.slope, st, derivative, g, link, needs)
        grad_x, grad_weight = grad.x, grad.weight
        if given is None and grad.h is not None:
            grad_x = torch.mm(grad.h, own.weight) if needs[0] else None
            # On small graphs this is quicker than grad_hᵀ x.
            grad_weight = torch.mm(x.t(), grad.h).t() if needs[1] else None
        return grad_x, grad_weight, grad.att, grad.offset, grad.edge, grad.bias

    def by_parts(self, x: Tensor, own: Any, graph: Graph) -> Tensor:
        weight, att, offset, edge, bias = own
        heads = att.size(0) // 2
        h = F.linear(x, weight)
        s, t = (F.leaky_relu(h, self.slope) @ att.t()).split(heads, dim=1)
        s = (s if offset is None else s + offset)[: graph.num_dst]
        out = _tanh_sum(s, t, h.unflatten(1, (heads, -1)), edge, graph, x, weight)
        return out if bias is None else out + bias


def lmgc(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    graph: Graph,
    slope: float = 0.2,
    edge: Tensor | None = None,
    bias: Tensor | None = None,
    act: str | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """LMGC as one function of x: transform, scores, the sum over K graphs, bias, activation.

    ``α_k(i,j) = tanh(offset_k + s_k(i) + t_k(j) + edge_k(i,j))``; without offset it is the paper's eq. 12.

    Args:
        x: ``[N, F]`` features.
        weight: ``[K·C, F]``, the W^(k) stacked.
        att: ``[2K, K·C]``, the v_k of the targets above those of the sources.
        graph: the graph.
        slope: of the LeakyReLU.
        edge: ``[E, K]`` score terms of the edges, in the graph's edge order.
        bias: ``[C]``.
        act: ``"gelu"`` or None.
        offset: ``[K]``, added to the scores.

    Returns:
        ``[N, C]``.
    """
    if act not in (None, "gelu"):
        raise ValueError(f"act: expected 'gelu' or None, got {act!r}")
    own = Weights(weight, att, offset, edge, bias)
    return lmgcs(x, [own], [Settings(slope, act == "gelu")], graph, None)


def lmgcs(
    x: Tensor,
    weights: Sequence[Weights],
    settings: Sequence[Settings],
    graph: Graph,
    rows: Tensor | None,
    gain: float | None = None,
    maximum: bool = False,
) -> Tensor:
    """Several layers one after another, each on what the one before gave.

    Args:
        x: ``[N, F]`` features; with `rows`, as many rows as there are.
        weights: of each layer.
        settings: of each layer.
        graph: the graph, of one kind of nodes.
        rows: ``[N]`` int64: node i begins as row ``rows[i]`` of x.
        gain: with a number, every layer adds its input to so many times its output.
        maximum: give the largest of what all layers gave, channel by channel, and not what the last one did.
    """
    check_rows(rows, x, graph)
    between = Between(gain, maximum and len(weights) > 1)
    if len(settings) != len(weights):
        raise ValueError(f"settings: expected one for each of {len(weights)} layers, got {len(settings)}")
    check_between(weights, between.gain, between.maximum)
    stack = Stack(tuple(settings), between, graph)
    tensors = [tensor for own in weights for tensor in own]
    kernels = not torch.compiler.is_compiling() and serving(x, rows) is _native and not autocast(x.device)
    if not (kernels and fit(x, weights, graph, rows)):
        check(x, weights, graph, rows)
        return stack.by_parts(x, tensors, rows)
    alike = all(own.edge is None for own in weights)
    return stack.run(x, tensors, links_of_layers(graph, len(weights), rows, x.size(0), alike), rows)


def _tanh_sum(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph, x: Tensor, weight: Tensor) -> Tensor:
    """`propagate_tanh` of h = x weightᵀ; on a GPU from rows of x, where that reads fewer bytes."""
    known = torch.compiler.is_compiling() or autocast(x.device)
    backend: Any = None if known else serving(x, weight, s, t, h, edge)
    if getattr(backend, "NAME", None) != "triton" or s.size(1) == 1 or not _narrow(graph, x, weight, s.size(1)):
        return propagate_tanh(s, t, h, graph, edge)

    def compute(s: Tensor, t: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
        gathered: Tensor = backend.tanh_spread(s, t, edge, x.detach().contiguous(), graph)
        return torch.mm(gathered.flatten(1), _stacked(weight.detach(), s.size(1)))

    out: Tensor = PropagateTanh.apply(s, t, h, edge, graph, backend, compute)
    return out


def _stacked(weight: Tensor, heads: int) -> Tensor:
    """[K·F, C]: the W^(k), one below the other."""
    width = weight.size(1)
    return weight.view(heads, -1, width).transpose(1, 2).reshape(heads * width, -1)


def _narrow(graph: Graph, x: Tensor, weight: Tensor, heads: int) -> bool:
    """Whether to gather rows of x and to multiply by W afterwards."""
    width, features = weight.shape
    large = x.size(0) * width * x.element_size() > _thresholds.CACHE_BYTES
    dense = graph.num_edges > _thresholds.NARROW_EDGES * graph.num_dst
    return large and dense and features < width and min(features, width // heads) >= _thresholds.SMALLEST_SIDE
