"""The same sums as operators of the torch library, for torch.compile and torch.export.

An operator costs more per call than the functions of `functions`, but a compiler can see it without looking inside.
"""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import native, reference
from mimogc.ops.native import Shape

_SHAPES = {"sum": Shape.HEADS_TO_SUM, "none": Shape.HEADS_TO_HEADS}


def propagate(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    out: Tensor = _propagate(alpha, h, *_arrays(graph), reduce)
    return out


def propagate_tanh(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    out: Tensor = _propagate_tanh(s, t, h, edge, *_arrays(graph))
    return out


def _arrays(graph: Graph) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return graph.rowptr, graph.sources, graph.colptr, graph.targets, graph.slot


def _graph(rowptr: Tensor, col: Tensor, colptr: Tensor, row: Tensor, edge: Tensor) -> Graph:
    # The operators never ask where an edge came from.
    return Graph(rowptr, col, edge, colptr, row, edge, colptr.numel() - 1, rowptr.numel() - 1)


@torch.library.custom_op("mimogc::propagate", mutates_args=())
def _propagate(
    alpha: Tensor,
    h: Tensor,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    row: Tensor,
    edge: Tensor,
    reduce: str,
) -> Tensor:
    graph = _graph(rowptr, col, colptr, row, edge)
    if native.available(h):
        return native.sum_heads(alpha, h, graph, _SHAPES[reduce])
    return reference.propagate(alpha, h, graph, reduce)


@_propagate.register_fake
def _(
    alpha: Tensor,
    h: Tensor,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    row: Tensor,
    edge: Tensor,
    reduce: str,
) -> Tensor:
    tail = h.shape[1:] if reduce == "none" else h.shape[2:]
    return h.new_empty(rowptr.size(0) - 1, *tail)


@torch.library.custom_op("mimogc::propagate_grad", mutates_args=())
def _propagate_grad(
    alpha: Tensor, h: Tensor, g: Tensor, rowptr: Tensor, col: Tensor, colptr: Tensor, row: Tensor, edge: Tensor,
    reduce: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    graph = _graph(rowptr, col, colptr, row, edge)
    if native.available(h):
        return native.sum_grad(alpha, h, g, graph, _SHAPES[reduce])
    return reference.propagate_grad(alpha, h, g, graph, reduce)


@_propagate_grad.register_fake
def _(
    alpha: Tensor, h: Tensor, g: Tensor, rowptr: Tensor, col: Tensor, colptr: Tensor, row: Tensor, edge: Tensor,
    reduce: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return torch.empty_like(alpha), torch.empty_like(h)


def _propagate_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    alpha, h, *arrays, ctx.reduce = inputs
    ctx.save_for_backward(alpha, h, *arrays)


def _propagate_backward(ctx, g):  # type: ignore[no-untyped-def]
    alpha, h, *arrays = ctx.saved_tensors
    grad_alpha, grad_h = _propagate_grad(alpha, h, g, *arrays, ctx.reduce)
    return grad_alpha, grad_h, None, None, None, None, None, None


_propagate.register_autograd(_propagate_backward, setup_context=_propagate_context)


@torch.library.custom_op("mimogc::propagate_tanh", mutates_args=())
def _propagate_tanh(
    s: Tensor, t: Tensor, h: Tensor, score: Tensor | None, rowptr: Tensor, col: Tensor, colptr: Tensor, row: Tensor,
    edge: Tensor,
) -> Tensor:  # fmt: skip
    graph = _graph(rowptr, col, colptr, row, edge)
    if native.available(h):
        s, t, h = s.contiguous(), t.contiguous(), h.contiguous()
        return native.tanh_sum(s, t, None if score is None else score.contiguous(), h, graph)
    return reference.propagate_tanh(s, t, h, score, graph)


@_propagate_tanh.register_fake
def _(
    s: Tensor, t: Tensor, h: Tensor, score: Tensor | None, rowptr: Tensor, col: Tensor, colptr: Tensor, row: Tensor,
    edge: Tensor,
) -> Tensor:  # fmt: skip
    return h.new_empty(rowptr.size(0) - 1, h.size(2))


@torch.library.custom_op("mimogc::propagate_tanh_grad", mutates_args=())
def _propagate_tanh_grad(
    s: Tensor, t: Tensor, h: Tensor, score: Tensor | None, g: Tensor, rowptr: Tensor, col: Tensor, colptr: Tensor,
    row: Tensor, edge: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    graph = _graph(rowptr, col, colptr, row, edge)
    if native.available(h):
        s, t, h, g = s.contiguous(), t.contiguous(), h.contiguous(), g.contiguous()
        score = None if score is None else score.contiguous()
        return native.tanh_sum_grad(s, t, score, h, g, graph)
    return reference.propagate_tanh_grad(s, t, h, score, g, graph)


@_propagate_tanh_grad.register_fake
def _(
    s: Tensor, t: Tensor, h: Tensor, score: Tensor | None, g: Tensor, rowptr: Tensor, col: Tensor, colptr: Tensor,
    row: Tensor, edge: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    contiguous = torch.contiguous_format
    same = (torch.empty_like(value, memory_format=contiguous) for value in (s, t, h))
    grad_s, grad_t, grad_h = same
    return grad_s, grad_t, grad_h, s.new_empty(edge.size(0), s.size(1))


def _tanh_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)
    ctx.has_score = inputs[3] is not None


def _tanh_backward(ctx, g):  # type: ignore[no-untyped-def]
    s, t, h, score, *arrays = ctx.saved_tensors
    grad_s, grad_t, grad_h, grad_score = _propagate_tanh_grad(s, t, h, score, g, *arrays)
    return grad_s, grad_t, grad_h, grad_score if ctx.has_score else None, None, None, None, None, None


_propagate_tanh.register_autograd(_tanh_backward, setup_context=_tanh_context)
