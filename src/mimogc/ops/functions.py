"""Gradients for the kernels: three primitives closed under differentiation, and the fused sums.

Σ_k Ã^(k) h_k (`Propagate`), its transpose (`Transpose`) and the sampled product ⟨g_i, h_k(j)⟩ (`Sample`) are each
bilinear, and the derivative of each is made of the others: so double backward works. The fused functions recompute
through these primitives when a second derivative is asked for.
"""

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
        ctx.save_for_backward(s, t, h, edge)
        ctx.graph = graph
        s, t, h, edge = _contiguous(s, t, h, edge)
        return native.tanh_sum(s, t, edge, h, graph)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        s, t, h, edge = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = Propagate.apply(separable_alpha(s, t, edge, ctx.graph), h, ctx.graph, Shape.HEADS_TO_SUM)
            return *second_order(out, (s, t, h, edge), g), None
        s, t, h, edge, g = _contiguous(s, t, h, edge, g)
        grad_s, grad_t, grad_h, grad_edge = native.tanh_sum_grad(s, t, edge, h, g, ctx.graph)
        return grad_s, grad_t, grad_h, grad_edge if ctx.needs_input_grad[3] else None, None


class PairScores(Function):
    """score_k(i,j) = att_k · LeakyReLU(source_k(j) + target_k(i)), without the E·K·C sums in memory."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor, att: Tensor, graph: Graph, slope: float) -> Tensor:
        ctx.save_for_backward(source, target, att)
        ctx.graph, ctx.slope = graph, slope
        source, target, att = _contiguous(source, target, att)
        return native.pair_scores(source, target, att, slope, graph)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        source, target, att = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = pair_scores(source, target, att, ctx.slope, ctx.graph)
            return *second_order(out, (source, target, att), g), None, None
        source, target, att, g = _contiguous(source, target, att, g)
        return *native.pair_scores_grad(source, target, att, ctx.slope, g, ctx.graph), None, None


def _contiguous(*tensors: Any) -> tuple[Any, ...]:
    """What the kernels read. Not what is saved: a second derivative has to find the inputs themselves."""
    return tuple(None if tensor is None else tensor.contiguous() for tensor in tensors)


def second_order(out: Tensor, inputs: tuple[Tensor | None, ...], g: Tensor) -> list[Tensor | None]:
    """Gradients of out that can be differentiated again."""
    wanted = [value for value in inputs if value is not None and value.requires_grad]
    found = iter(torch.autograd.grad(out, wanted, g, create_graph=True))
    return [next(found) if value is not None and value.requires_grad else None for value in inputs]
