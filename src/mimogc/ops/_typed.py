"""Scores on graphs whose edges have one of a few types, as a function with its gradients.

Nothing of the size of the edges times channels is stored. `_typed_layers` has whole layers on such graphs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native
from mimogc.ops._backends import plain, serving, serving_gradients
from mimogc.ops._checks import matched
from mimogc.ops._functions import contiguous, recomputed, save, saved


def typed_pair_scores(
    source: Tensor, target: Tensor, att: Tensor, graph: Graph, kinds: Tensor, table: Tensor, slope: float = 0.2
) -> Tensor:
    """`pair_scores` with edge types: ``att_k · LeakyReLU(source_k(j) + target_k(i) + table_k(type))``.

    Args:
        source: ``[num_src, K, C]`` features of the sources.
        target: ``[num_dst, K, C]`` features of the targets.
        att: ``[K, C]``.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.
        table: ``[T, K, C]``.
        slope: of the LeakyReLU.

    Returns:
        ``[E, K]`` in the graph's edge order.
    """
    check_kinds(kinds, graph, table.size(0))
    source, target, att, table = matched(
        graph,
        ("source", source, (graph.num_src, "K", "C")),
        ("target", target, (graph.num_dst, "K", "C")),
        ("att", att, ("K", "C")),
        ("table", table, ("T", "K", "C")),
    )
    if not torch.compiler.is_compiling() and serving(source, target, att, table) is _native:
        out: Tensor = TypedPairScores.apply(source, target, att, table, graph, kinds, slope)
        return out
    return _pairs_by_parts(source, target, att, table, graph, kinds, slope)


def check_kinds(kinds: Tensor, graph: Graph, types: int) -> None:
    """Refuse types that are not below their number; what is compiled finds out itself."""
    if not isinstance(kinds, Tensor) or not (torch.compiler.is_compiling() or plain(kinds)):
        raise TypeError(f"kinds: expected a plain tensor, no subclass and no negated view, got {type(kinds).__name__}")
    if kinds.dtype != torch.int64 or kinds.shape != (graph.num_edges,) or kinds.device != graph.device:
        wanted = f"int64 [{graph.num_edges}] on {graph.device}"
        raise ValueError(f"kinds: expected {wanted}, got {kinds.dtype} {list(kinds.shape)} on {kinds.device}")
    if torch.compiler.is_compiling() or not kinds.is_cpu or not kinds.numel():
        return
    low, high = (int(value) for value in kinds.aminmax())
    if low < 0 or high >= types:
        raise IndexError(f"kinds: expected types 0 to {types - 1}, got {low if low < 0 else high}")


def _pairs_by_parts(
    source: Tensor, target: Tensor, att: Tensor, table: Tensor, graph: Graph, kinds: Tensor, slope: float
) -> Tensor:
    both = source[graph.src] + target[graph.dst] + table.index_select(0, kinds)
    return (F.leaky_relu(both, slope) * att).sum(-1)


class TypedPairScores(Function):
    """The scores of `typed_pair_scores`."""

    @staticmethod
    def forward(
        ctx: Any, source: Tensor, target: Tensor, att: Tensor, table: Tensor, graph: Graph, kinds: Tensor, slope: float
    ) -> Tensor:
        kinds = kinds.contiguous()
        save(ctx, source, target, att, table, kinds)
        ctx.graph, ctx.slope, ctx.same = graph, slope, source is target
        source, target, att, table = contiguous(source, target, att, table)
        return _native.typed_pair_scores(source, target, att, slope, graph, table, kinds)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        *given, kinds = saved(ctx)
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:
            return *recomputed(_pairs_by_parts, tuple(given), g, ctx.graph, kinds, ctx.slope), None, None, None
        source, target, att, table, g = contiguous(*given, g)
        check_kinds(kinds, ctx.graph, table.size(0))
        of = source, target, att, ctx.slope, g, ctx.graph, table, kinds
        found = _native.typed_pair_scores_grad(*of, same=ctx.same)
        return *found, None, None, None
