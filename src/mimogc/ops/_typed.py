"""GATv2's layer on graphs whose edges have one of a few types, as a function with its gradients.

With kernels nothing of the size of the edges times channels is stored. `_typed_layers` has LMGC's layers on them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _native
from mimogc.ops._backends import plain, serving, serving_gradients
from mimogc.ops._checks import autocast, matched
from mimogc.ops._functions import contiguous, recomputed, save, saved
from mimogc.ops._operators import edge_softmax, propagate


def typed_attention(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    graph: Graph,
    kinds: Tensor,
    table: Tensor,
    messages: Tensor,
    slope: float = 0.2,
    bias: Tensor | None = None,
) -> Tensor:
    """GATv2 with edge types: ``out_i = Σ_k Σ_j α_k(i,j) (source_k(j) + message_k(type)) + bias``.

    ``α_k(i,j)`` is the softmax over j of ``att_k · LeakyReLU(source_k(j) + target_k(i) + table_k(type))``.

    Args:
        source: ``[num_src, K, C]`` features of the sources.
        target: ``[num_dst, K, C]`` features of the targets.
        att: ``[K, C]``.
        graph: the graph.
        kinds: ``[E]`` int64, the types of the edges in the graph's edge order, each below T.
        table: ``[T, K, C]``.
        messages: ``[T·K, C]``: row ``t·K + k`` is the message of type t in graph k.
        slope: of the LeakyReLU.
        bias: ``[C]``.

    Returns:
        ``[num_dst, C]``.
    """
    for name, value, dims in (("att", att, 2), ("table", table, 3)):
        if not isinstance(value, Tensor) or value.dim() != dims:
            found = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"{name}: expected {dims} dimensions, got {found}")
    if not isinstance(slope, int | float):
        raise TypeError(f"slope: expected a number, got {type(slope).__name__}")
    if not att.size(0):
        raise ValueError(f"att: expected shape [K, C] of at least one graph, got {list(att.shape)}")
    check_kinds(kinds, graph, table.size(0))
    source, target, att, table, messages, bias = matched(
        graph,
        ("source", source, (graph.num_src, "K", "C")),
        ("target", target, (graph.num_dst, "K", "C")),
        ("att", att, ("K", "C")),
        ("table", table, ("T", "K", "C")),
        ("messages", messages, (table.size(0) * att.size(0), "C")),
        ("bias", bias, ("C",)),
    )
    tensors = source, target, att, table, messages, bias
    if not (torch.compiler.is_compiling() or autocast(source.device)) and serving(*tensors) is _native:
        out: Tensor = TypedAttention.apply(graph, kinds, slope, *tensors)
        return out
    return _by_parts(*tensors, graph, kinds, slope).to(source.dtype)  # autocast would have others


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


def _by_parts(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    table: Tensor,
    messages: Tensor,
    bias: Tensor | None,
    graph: Graph,
    kinds: Tensor,
    slope: float,
) -> Tensor:
    """As functions that can be differentiated twice."""
    (types, heads), nodes = table.shape[:2], graph.num_dst
    both = source[graph.src] + target[graph.dst] + table.index_select(0, kinds)
    alpha = edge_softmax((F.leaky_relu(both, slope) * att).sum(-1), graph)
    received = alpha.new_zeros(nodes * types, heads).index_add(0, graph.dst * types + kinds, alpha)
    out = torch.addmm(propagate(alpha, source, graph), received.view(nodes, types * heads), messages)
    return out if bias is None else out + bias


class TypedAttention(Function):
    """`typed_attention`; the messages of the types are a product with what each node receives of them."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, kinds: Tensor, slope: float, *tensors: Any) -> Tensor:
        source, target, att, table, messages, bias = contiguous(*tensors)
        kinds = kinds.contiguous()
        received = source.new_empty((graph.num_dst, messages.size(0)))
        of_types = table, kinds, received
        out, alpha = _native.attention(source, target, att, slope, graph._struct, bias, *of_types)
        save(ctx, *tensors, kinds, alpha, received)
        ctx.graph, ctx.slope, ctx.same = graph, slope, tensors[0] is tensors[1]
        return out.addmm_(received, messages)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        *given, kinds, alpha, received = saved(ctx)
        if torch.is_grad_enabled() or serving_gradients(g) is not _native:
            return None, None, None, *recomputed(_by_parts, tuple(given), g, ctx.graph, kinds, ctx.slope)
        source, target, att, table, messages, _, g = contiguous(*given, g)
        check_kinds(kinds, ctx.graph, table.size(0))
        of_types = table, kinds, torch.mm(g, messages.t())
        of = source, target, att, ctx.slope, alpha, g, ctx.graph._struct, *of_types
        *ends, grad_table = _native.attention_grad(*of, same=ctx.same)
        *_, needs_messages, needs_bias = ctx.needs_input_grad
        sent = torch.mm(received.t(), g) if needs_messages else None
        return None, None, None, *ends, grad_table, sent, g.sum(0) if needs_bias else None
