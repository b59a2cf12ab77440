"""What is as large as the edges and not a sum of rows, as operators of the torch library: see `_compiled`."""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _functions as functions
from mimogc.ops._compiled import arrays_of, empty, graph_of, kernels


def edge_softmax(score: Tensor, graph: Graph) -> Tensor:
    out: Tensor = _softmax(score, arrays_of(graph))
    return out


def at_ends(x: Tensor, graph: Graph, sources: bool) -> Tensor:
    out: Tensor = _at_ends(x, arrays_of(graph), sources)
    return out


def sum_at_ends(values: Tensor, graph: Graph, sources: bool) -> Tensor:
    out: Tensor = _sum_at_ends(values, arrays_of(graph), sources)
    return out


@torch.library.custom_op("mimogc::edge_softmax", mutates_args=())
def _softmax(score: Tensor, arrays: list[Tensor]) -> Tensor:
    return kernels(score).softmax(score.contiguous(), graph_of(arrays)).contiguous()


@_softmax.register_fake
def _(score: Tensor, arrays: list[Tensor]) -> Tensor:
    return empty(score)


@torch.library.custom_op("mimogc::edge_softmax_grad", mutates_args=())
def _softmax_grad(alpha: Tensor, g: Tensor, arrays: list[Tensor]) -> Tensor:
    return kernels(alpha).softmax_grad(alpha.contiguous(), g.contiguous(), graph_of(arrays))


@_softmax_grad.register_fake
def _(alpha: Tensor, g: Tensor, arrays: list[Tensor]) -> Tensor:
    return empty(alpha)


def _softmax_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(output, *inputs[1])


def _softmax_backward(ctx, g):  # type: ignore[no-untyped-def]
    alpha, *arrays = ctx.saved_tensors
    return _softmax_grad(alpha, g, arrays), [None] * len(arrays)


_softmax.register_autograd(_softmax_backward, setup_context=_softmax_context)


@torch.library.custom_op("mimogc::at_ends", mutates_args=())
def _at_ends(x: Tensor, arrays: list[Tensor], sources: bool) -> Tensor:
    graph = graph_of(arrays)
    return x.index_select(0, graph.src if sources else graph.dst)


@_at_ends.register_fake
def _(x: Tensor, arrays: list[Tensor], sources: bool) -> Tensor:
    return x.new_empty(arrays[-1].size(0), x.size(1))


@torch.library.custom_op("mimogc::sum_at_ends", mutates_args=())
def _sum_at_ends(values: Tensor, arrays: list[Tensor], sources: bool) -> Tensor:
    return functions.sum_at_ends(values, graph_of(arrays), sources)


@_sum_at_ends.register_fake
def _(values: Tensor, arrays: list[Tensor], sources: bool) -> Tensor:
    rows = arrays[2 if sources else 0].size(0) - 1  # colptr or rowptr
    return values.new_empty(rows, values.size(1))


def _ends_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    _, arrays, ctx.sources = inputs
    ctx.save_for_backward(*arrays)


def _at_ends_backward(ctx, g):  # type: ignore[no-untyped-def]
    arrays = ctx.saved_tensors
    return _sum_at_ends(g, list(arrays), ctx.sources), [None] * len(arrays), None


def _sum_at_ends_backward(ctx, g):  # type: ignore[no-untyped-def]
    arrays = ctx.saved_tensors
    return _at_ends(g, list(arrays), ctx.sources), [None] * len(arrays), None


_at_ends.register_autograd(_at_ends_backward, setup_context=_ends_context)
_sum_at_ends.register_autograd(_sum_at_ends_backward, setup_context=_ends_context)
