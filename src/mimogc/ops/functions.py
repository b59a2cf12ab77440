"""Gradients for the kernels: three primitives closed under differentiation, and the two fused sums.

Σ_k Ã^(k) h_k (`Propagate`), its transpose (`Transpose`) and the sampled product ⟨g_i, h_k(j)⟩ (`Sample`) are each
bilinear, and the derivative of each is made of the others: so double backward works. The fused functions recompute
through these primitives when a second derivative is asked for.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from mimogc.graph import Graph
from mimogc.ops import native
from mimogc.ops.native import Shape
from mimogc.ops.reference import pair_scores, separable_alpha

_TRANSPOSED = {Shape.HEADS_TO_SUM: Shape.SHARED_TO_HEADS, Shape.HEADS_TO_HEADS: Shape.HEADS_TO_HEADS}
_ORIGINAL = {transposed: shape for shape, transposed in _TRANSPOSED.items()}


class Propagate(Function):
    """out_i = Σ_j α_k(i,j) h_k(j), with the sum over k in HEADS_TO_SUM."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, h: Tensor, graph: Graph, shape: Shape) -> Tensor:
        ctx.save_for_backward(alpha, h)
        ctx.graph, ctx.shape = graph, shape
        return native.sum_heads(alpha, h, graph, shape)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        alpha, h = ctx.saved_tensors
        graph, shape = ctx.graph, ctx.shape
        if not torch.is_grad_enabled() and all(ctx.needs_input_grad[:2]):
            return *native.sum_grad(alpha, h, g, graph, shape), None, None
        grad_alpha = Sample.apply(g, h, graph, shape) if ctx.needs_input_grad[0] else None
        grad_h = Transpose.apply(alpha, g, graph, _TRANSPOSED[shape]) if ctx.needs_input_grad[1] else None
        return grad_alpha, grad_h, None, None


class Transpose(Function):
    """out_k(j) = Σ_i α_k(i,j) g_i: the transposed graphs."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, g: Tensor, graph: Graph, shape: Shape) -> Tensor:
        ctx.save_for_backward(alpha, g)
        ctx.graph, ctx.shape = graph, shape
        return native.sum_transposed(alpha, g, graph, shape)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Any:
        alpha, g = ctx.saved_tensors
        shape = _ORIGINAL[ctx.shape]
        return Sample.apply(g, v, ctx.graph, shape), Propagate.apply(alpha, v, ctx.graph, shape), None, None


class Sample(Function):
    """out_k(i,j) = ⟨g_i, h_k(j)⟩ on the edges."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, h: Tensor, graph: Graph, shape: Shape) -> Tensor:
        ctx.save_for_backward(g, h)
        ctx.graph, ctx.shape = graph, shape
        return native.dot(g, h, graph, shape)

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> Any:
        g, h = ctx.saved_tensors
        grad_g = Propagate.apply(u, h, ctx.graph, ctx.shape)
        grad_h = Transpose.apply(u, g, ctx.graph, _TRANSPOSED[ctx.shape])
        return grad_g, grad_h, None, None


class PropagateTanh(Function):
    """out_i = Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k(i,j)) h_k(j), α recomputed in the kernels."""

    @staticmethod
    def forward(ctx: Any, s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
        s, t, h = s.contiguous(), t.contiguous(), h.contiguous()
        edge = None if edge is None else edge.contiguous()
        ctx.save_for_backward(s, t, h, edge)
        ctx.graph = graph
        return native.tanh_sum(s, t, edge, h, graph)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        s, t, h, edge = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = Propagate.apply(separable_alpha(s, t, edge, ctx.graph), h, ctx.graph, Shape.HEADS_TO_SUM)
            return *_second_order(out, (s, t, h, edge), g), None
        grad_s, grad_t, grad_h, grad_edge = native.tanh_sum_grad(s, t, edge, h, g.contiguous(), ctx.graph)
        return grad_s, grad_t, grad_h, grad_edge if ctx.needs_input_grad[3] else None, None


class PairScores(Function):
    """score_k(i,j) = att_k · LeakyReLU(source_k(j) + target_k(i)), without the E·K·C sums in memory."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor, att: Tensor, graph: Graph, slope: float) -> Tensor:
        source, target, att = source.contiguous(), target.contiguous(), att.contiguous()
        ctx.save_for_backward(source, target, att)
        ctx.graph, ctx.slope = graph, slope
        return native.pair_scores(source, target, att, slope, graph)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        source, target, att = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = pair_scores(source, target, att, ctx.slope, ctx.graph)
            return *_second_order(out, (source, target, att), g), None, None
        return *native.pair_scores_grad(source, target, att, ctx.slope, g.contiguous(), ctx.graph), None, None


class Layer(Function):
    """The whole layer of the paper's eq. 12: transform, scores, sum, bias, and GELU if asked for, in one function.

    x [N, F], weight [K·C, F], att [2K, K·C], edge [E, K], bias [C]: out = Σ_k Ã^(k) X W^(k) + bias. With rows [N],
    node i has row rows[i] of x, and there are as many products with W as x has rows.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        att: Tensor,
        edge: Tensor | None,
        bias: Tensor | None,
        graph: Graph,
        slope: float,
        gelu: bool,
        rows: Tensor | None,
    ) -> Tensor:
        x, att = x.contiguous(), att.contiguous()
        edge = None if edge is None else edge.contiguous()
        h = torch.nn.functional.linear(x, weight)
        if rows is not None:
            h = h.index_select(0, rows)
        if rows is None and _narrow(graph, x, h):
            out, st = _narrow_layer(x, weight, att, edge, bias, graph, slope, h)
            out, derivative = _gelu(out) if gelu else (out, None)
        else:
            out, st, derivative = native.layer(h, att, slope, edge, bias, graph, gelu)
        ctx.save_for_backward(x, weight, att, edge, bias, h, st, derivative, rows)
        ctx.graph, ctx.slope = graph, slope
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight, att, edge, bias, h, st, derivative, rows = ctx.saved_tensors
        if torch.is_grad_enabled():
            own = x if rows is None else x[rows]
            out = _layer_by_parts(own, weight, att, edge, bias, ctx.graph, ctx.slope)
            out = out if derivative is None else torch.nn.functional.gelu(out)
            return *_second_order(out, (x, weight, att, edge, bias), g), None, None, None, None
        needs_x, needs_weight, _, needs_edge, needs_bias, *_ = ctx.needs_input_grad
        g = g.contiguous() if derivative is None else derivative * g.contiguous()
        grad_h, grad_att, grad_edge = native.layer_grad(h, att, ctx.slope, edge, st, g, ctx.graph)
        if rows is not None:
            grad_h = grad_h.new_zeros(x.size(0), grad_h.size(1)).index_add_(0, rows, grad_h)
        return (
            torch.mm(grad_h, weight) if needs_x else None,
            torch.mm(x.t(), grad_h).t() if needs_weight else None,  # on small graphs quicker than grad_hᵀ x
            grad_att,
            grad_edge if needs_edge else None,
            g.sum(0) if needs_bias else None,
            *(None, None, None, None),
        )


# Gathering rows of x and multiplying by W afterwards reads K·C/F times fewer bytes per edge than gathering rows of h.
# It pays when h is larger than the last cache and there are enough edges per node to pay for the second product.
_CACHE_BYTES = 32 * 2**20
_NARROW_ROWS = 1024


def _narrow(graph: Graph, x: Tensor, h: Tensor) -> bool:
    large = h.numel() * h.element_size() > _CACHE_BYTES
    return large and graph.num_edges > 4 * graph.num_dst and x.size(1) < h.size(1)


def _narrow_layer(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    edge: Tensor | None,
    bias: Tensor | None,
    graph: Graph,
    slope: float,
    h: Tensor,
) -> tuple[Tensor, Tensor]:
    """Σ_k (Ã^(k) X) W^(k) + bias, a block of rows at a time, and the scores."""
    heads, width = att.size(0) // 2, x.size(1)
    st = native.scores(h, att, slope)
    s, t = st[:, :heads], st[:, heads:]
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


def _layer_by_parts(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    edge: Tensor | None,
    bias: Tensor | None,
    graph: Graph,
    slope: float,
) -> Tensor:
    heads = att.size(0) // 2
    h = x @ weight.t()
    st = torch.nn.functional.leaky_relu(h, slope) @ att.t()
    alpha = separable_alpha(st[:, :heads], st[:, heads:], edge, graph)
    out: Tensor = Propagate.apply(alpha, _heads(h, heads), graph, Shape.HEADS_TO_SUM)
    return out if bias is None else out + bias


def _heads(h: Tensor, heads: int) -> Tensor:
    """[N, K·C] as [N, K, C], also for no nodes."""
    return h.view(h.size(0), heads, h.size(1) // heads)


def _second_order(out: Tensor, inputs: tuple[Tensor | None, ...], g: Tensor) -> list[Tensor | None]:
    """Gradients of out that can be differentiated again."""
    wanted = [value for value in inputs if value is not None and value.requires_grad]
    found = iter(torch.autograd.grad(out, wanted, g, create_graph=True))
    return [next(found) if value is not None and value.requires_grad else None for value in inputs]
