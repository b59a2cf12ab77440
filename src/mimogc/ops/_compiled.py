"""The same sums as operators of the torch library, for torch.compile and torch.export.

An operator costs more per call than the functions of `_functions`, but a compiler can see it without looking inside.
"""

from typing import Any

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _plain
from mimogc.ops._backends import Backend, serving
from mimogc.ops._functions import contiguous, pair


def propagate(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    out: Tensor = _propagate(alpha, h, arrays_of(graph), reduce)
    return out


def propagate_tanh(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    out: Tensor = _propagate_tanh(s, t, h, edge, arrays_of(graph))
    return out


def pair_scores(
    source: Tensor, target: Tensor, att: Tensor, edge: Tensor | None, weight: Tensor | None, slope: float, graph: Graph
) -> Tensor:
    out: Tensor = _pair_scores(source, target, att, edge, weight, slope, arrays_of(graph))
    return out


def arrays_of(graph: Graph) -> list[Tensor]:
    return [graph.rowptr, graph.sources, graph.colptr, graph.targets, graph.slot]


def graph_of(arrays: list[Tensor]) -> Graph:
    rowptr, sources, colptr, targets, slot = arrays
    # The operators never ask where an edge came from.
    graph = Graph(rowptr, sources, slot, colptr, targets, slot, colptr.numel() - 1, rowptr.numel() - 1)
    graph._cache["passing"] = True
    return graph


def kernels(like: Tensor) -> Backend:
    """What computes inside of an operator, where autograd records nothing."""
    return serving(like) or _plain


def empty(like: Tensor) -> Tensor:
    """What a kernel returns of this shape: contiguous, whatever it was given."""
    return torch.empty_like(like, memory_format=torch.contiguous_format)


@torch.library.custom_op("mimogc::propagate", mutates_args=())
def _propagate(alpha: Tensor, h: Tensor, arrays: list[Tensor], reduce: str) -> Tensor:
    return kernels(h).sum_heads(alpha, h, graph_of(arrays), reduce)


@_propagate.register_fake
def _(alpha: Tensor, h: Tensor, arrays: list[Tensor], reduce: str) -> Tensor:
    tail = h.shape[1:] if reduce == "none" else h.shape[2:]
    return h.new_empty(arrays[0].size(0) - 1, *tail)


@torch.library.custom_op("mimogc::propagate_grad", mutates_args=())
def _propagate_grad(alpha: Tensor, h: Tensor, g: Tensor, arrays: list[Tensor], reduce: str) -> tuple[Tensor, Tensor]:
    return kernels(h).sum_grad(alpha, h, g, graph_of(arrays), reduce)


@_propagate_grad.register_fake
def _(alpha: Tensor, h: Tensor, g: Tensor, arrays: list[Tensor], reduce: str) -> tuple[Tensor, Tensor]:
    return empty(alpha), empty(h)


def _propagate_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    alpha, h, arrays, ctx.reduce = inputs
    ctx.save_for_backward(alpha, h, *arrays)


def _propagate_backward(ctx, g):  # type: ignore[no-untyped-def]
    alpha, h, *arrays = ctx.saved_tensors
    grad_alpha, grad_h = _propagate_grad(alpha, h, g, arrays, ctx.reduce)
    return grad_alpha, grad_h, [None] * len(arrays), None


_propagate.register_autograd(_propagate_backward, setup_context=_propagate_context)


@torch.library.custom_op("mimogc::propagate_tanh", mutates_args=())
def _propagate_tanh(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, arrays: list[Tensor]) -> Tensor:
    s, t, h, edge = contiguous(s, t, h, edge)
    return kernels(h).tanh_sum(s, t, edge, h, graph_of(arrays))


@_propagate_tanh.register_fake
def _(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, arrays: list[Tensor]) -> Tensor:
    return h.new_empty(arrays[0].size(0) - 1, h.size(2))


@torch.library.custom_op("mimogc::propagate_tanh_grad", mutates_args=())
def _propagate_tanh_grad(
    s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, g: Tensor, arrays: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    s, t, h, edge, g = contiguous(s, t, h, edge, g)
    return kernels(h).tanh_sum_grad(s, t, edge, h, g, graph_of(arrays))


@_propagate_tanh_grad.register_fake
def _(s: Tensor, t: Tensor, h: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return empty(s), empty(t), empty(h), s.new_empty(others[-1][-1].size(0), s.size(1))


def _tanh_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    *values, arrays = inputs
    ctx.save_for_backward(*values, *arrays)


def _tanh_backward(ctx, g):  # type: ignore[no-untyped-def]
    s, t, h, edge, *arrays = ctx.saved_tensors
    *grads, grad_edge = _propagate_tanh_grad(s, t, h, edge, g, arrays)
    return *grads, None if edge is None else grad_edge, [None] * len(arrays)


_propagate_tanh.register_autograd(_tanh_backward, setup_context=_tanh_context)


@torch.library.custom_op("mimogc::pair_scores", mutates_args=())
def _pair_scores(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    edge: Tensor | None,
    weight: Tensor | None,
    slope: float,
    arrays: list[Tensor],
) -> Tensor:
    source, target, att, edge, weight = contiguous(source, target, att, edge, weight)
    return kernels(source).pair_scores(source, target, att, slope, graph_of(arrays), pair(edge, weight))


@_pair_scores.register_fake
def _(source: Tensor, target: Tensor, att: Tensor, *others: Any) -> Tensor:
    return source.new_empty(others[-1][-1].size(0), att.size(0))


@torch.library.custom_op("mimogc::pair_scores_grad", mutates_args=())
def _pair_scores_grad(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    edge: Tensor | None,
    weight: Tensor | None,
    slope: float,
    g: Tensor,
    learnt: bool,
    arrays: list[Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    graph = graph_of(arrays)
    source, target, att, edge, weight, g = contiguous(source, target, att, edge, weight, g)
    more: tuple[Tensor | None, Tensor | None] = (None, None)
    given = pair(edge, weight)
    if given is not None:
        more = _plain.pair_scores_edge_grad(source, target, att, slope, g, graph, given, (learnt, True))
    grads = kernels(source).pair_scores_grad(source, target, att, slope, g, graph, given)
    of_edge, of_weight = (source.new_empty(0) if value is None else value for value in more)
    return *grads, of_edge, of_weight


@_pair_scores_grad.register_fake
def _(source: Tensor, target: Tensor, att: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    edge, weight, _, _, learnt, _ = others
    of_edge = source.new_empty(0) if edge is None or not learnt else empty(edge)
    return empty(source), empty(target), empty(att), of_edge, source.new_empty(0) if weight is None else empty(weight)


def _pairs_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    *values, ctx.slope, arrays = inputs
    ctx.save_for_backward(*values, *arrays)


def _pairs_backward(ctx, g):  # type: ignore[no-untyped-def]
    source, target, att, edge, weight, *arrays = ctx.saved_tensors
    learnt = ctx.needs_input_grad[3]
    *found, grad_edge, grad_weight = _pair_scores_grad(source, target, att, edge, weight, ctx.slope, g, learnt, arrays)
    more = grad_edge if learnt else None, None if weight is None else grad_weight
    return *found, *more, None, [None] * len(arrays)


_pair_scores.register_autograd(_pairs_backward, setup_context=_pairs_context)
