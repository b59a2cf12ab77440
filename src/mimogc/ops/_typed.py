"""Layers on graphs whose edges have one of a few types, each as one function with its gradients.

A type adds a term to the score of an edge, and a message; nothing of the size of the edges times channels is stored.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native, _native_layers, reference
from mimogc.ops._backends import serving, serving_gradients
from mimogc.ops._checks import autocast, matched
from mimogc.ops._functions import contiguous, recomputed, save, saved
from mimogc.ops._native_layers import Typed, Weights
from mimogc.ops._operators import propagate


def typed_lmgc(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    graph: Graph,
    kinds: Tensor,
    scores: Tensor,
    messages: Tensor,
    slope: float = 0.2,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """`lmgc` with edge types: ``out_i = Σ_k Σ_j α_k(i,j) (W^(k) x_j + message_k(type))``.

    Args:
        x: ``[N, F]`` features.
        weight: ``[K·C, F]``, the W^(k) stacked.
        att: ``[2K, K·C]``, the v_k of the targets above those of the sources.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.
        scores: ``[T, K]``, what a type adds to the scores.
        messages: ``[T·K, C]``: row ``t·K + k`` is the message of type t in graph k.
        slope: of the LeakyReLU.
        bias: ``[C]``.
        offset: ``[K]``, added to the scores.

    Returns:
        ``[N, C]``.
    """
    _check_kinds(kinds, graph, scores)
    heads = att.size(0) // 2
    expected = (
        ("x", x, (graph.num_nodes, "F")),
        ("weight", weight, ("K·C", "F")),
        ("att", att, (2 * heads, "K·C")),
        ("scores", scores, ("T", heads)),
        ("messages", messages, (scores.size(0) * heads, "C")),
        ("bias", bias, ("C",)),
        ("offset", offset, (heads,)),
    )
    sizes = {"K·C": heads * messages.size(1)}
    x, weight, att, scores, messages, bias, offset = matched(graph, *expected, **sizes)
    given = (x, weight, att, scores, messages, bias, offset)
    eager = not torch.compiler.is_compiling() and not autocast(x.device)
    if eager and graph.num_edges and serving(*given) is _native:  # types of no edges have no address
        out: Tensor = TypedLayer.apply(*given, graph, kinds, slope)
        return out
    return _layer_by_parts(*given, graph, kinds, slope)


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
    _check_kinds(kinds, graph, table)
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


def _check_kinds(kinds: Tensor, graph: Graph, table: Tensor) -> None:
    """Refuse types that are no rows of the table; what is compiled finds out itself."""
    if kinds.dtype != torch.int64 or kinds.shape != (graph.num_edges,) or kinds.device != graph.device:
        wanted = f"int64 [{graph.num_edges}] on {graph.device}"
        raise ValueError(f"kinds: expected {wanted}, got {kinds.dtype} {list(kinds.shape)} on {kinds.device}")
    if torch.compiler.is_compiling() or not kinds.is_cpu or not kinds.numel():
        return
    low, high = (int(value) for value in kinds.aminmax())
    if low < 0 or high >= table.size(0):
        raise IndexError(f"kinds: expected types 0 to {table.size(0) - 1}, got {low if low < 0 else high}")


def _layer_by_parts(
    x: Tensor,
    weight: Tensor,
    att: Tensor,
    scores: Tensor,
    messages: Tensor,
    bias: Tensor | None,
    offset: Tensor | None,
    graph: Graph,
    kinds: Tensor,
    slope: float,
) -> Tensor:
    heads = att.size(0) // 2
    h = F.linear(x, weight)
    s, t = (F.leaky_relu(h, slope) @ att.t()).split(heads, dim=1)
    s = s if offset is None else s + offset
    alpha = reference.separable_alpha(s, t, scores.index_select(0, kinds), graph)
    out = propagate(alpha, h.unflatten(1, (heads, -1)), graph)
    types = scores.size(0)
    received = alpha.new_zeros(graph.num_dst * types, heads).index_add(0, graph.dst * types + kinds, alpha)
    out = torch.addmm(out, received.view(graph.num_dst, -1), messages)
    return out if bias is None else out + bias


class TypedLayer(Function):
    """The whole layer of `typed_lmgc`; the messages of the types are a product with what each node receives of them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        att: Tensor,
        scores: Tensor,
        messages: Tensor,
        bias: Tensor | None,
        offset: Tensor | None,
        graph: Graph,
        kinds: Tensor,
        slope: float,
    ) -> Tensor:
        kinds, types = kinds.contiguous(), scores.size(0)
        own = Weights(*contiguous(weight, att, offset, scores, bias))
        typed = Typed(kinds, types, x.new_empty((graph.num_dst, messages.size(0))))
        given, h = (x.contiguous(), None) if _native_layers.multiplies(weight) else (None, F.linear(x, weight))
        out, h, st, _ = _native_layers.layer(given, h, own, slope, graph._struct, False, typed)
        save(ctx, x, weight, att, scores, messages, bias, offset, h, st, typed.received, kinds)
        ctx.graph, ctx.slope = graph, slope
        return out.addmm_(typed.received, messages)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        *given, h, st, received, kinds = saved(ctx)  # types that were changed since would reach beyond the table
        x, weight, att, scores, messages, bias, offset = given
        graph = ctx.graph
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:
            return *recomputed(_layer_by_parts, tuple(given), g, graph, kinds, ctx.slope), None, None, None
        _check_kinds(kinds, graph, scores)  # numpy may have written to them
        g = g.contiguous()
        own = Weights(*contiguous(weight, att, offset, scores, bias))
        typed = Typed(kinds, scores.size(0), torch.mm(g, messages.t()))
        needs_x, needs_weight, needs_att, _, _, needs_bias, needs_offset = ctx.needs_input_grad[:7]
        needs = needs_x, needs_weight, needs_att, needs_offset, True, needs_bias
        inside = x.contiguous() if _native_layers.multiplies(weight) else None
        found = _native_layers.layer_grad(inside, h, own, ctx.slope, st, None, g, graph._struct, needs, typed)
        grad_x, grad_weight = found.x, found.weight
        if inside is None and found.h is not None:
            grad_x, grad_weight = torch.mm(found.h, weight), torch.mm(x.t(), found.h).t()
        grads = grad_x, grad_weight, found.att, found.edge, torch.mm(received.t(), g), found.bias, found.offset
        return *grads, None, None, None


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
        _check_kinds(kinds, ctx.graph, table)
        of = source, target, att, ctx.slope, g, ctx.graph, table, kinds
        found = _native.typed_pair_scores_grad(*of, same=ctx.same)
        return *found, None, None, None
