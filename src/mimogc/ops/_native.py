"""The compiled kernels as Python functions on tensors: shapes in, shapes out, no gradients and no argument checks."""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from mimogc._library import library, run
from mimogc.graph import Graph
from mimogc.ops import _plain

NAME = "native"


@cache
def _maker(name: str) -> Callable[[tuple[Any, ...]], Any]:
    ffi: Any = library().ffi  # type: ignore[union-attr]
    return partial(ffi.new, ffi.typeof(f"{name}*"))


def struct(name: str, *fields: Any) -> Any:
    """A struct of mimogc.h."""
    return _maker(name)(fields)


def for_one_call(*fields: Any) -> list[tuple[Any, ...]]:
    """A struct that only one call needs: cffi makes it on the stack, which is quicker than an object of its own."""
    return [fields]


def sizes(
    like: Tensor, heads: int, channels: int, shape: str = "HEADS_TO_SUM", features: int = 0, slope: float = 0.0
) -> Any:
    """MimogcSizes for numbers of this type and torch's number of threads; `shape` is a MimogcShape."""
    return _sizes(like.dtype, torch.get_num_threads(), shape, heads, channels, features, float(slope))


@lru_cache(maxsize=512)
def _sizes(dtype: torch.dtype, threads: int, shape: str, *rest: float) -> Any:
    number: int = getattr(library().kernels, f"MIMOGC_{shape}")  # type: ignore[union-attr]
    return struct("MimogcSizes", dtype.itemsize, threads, number, *rest)


def pointer(value: Tensor | None) -> int:
    """The address of the values, null where there are none."""
    if value is None:
        return 0
    place = value.data_ptr()
    if not place and value.numel():
        raise RuntimeError(f"expected tensors with memory, got one of shape {list(value.shape)} that was freed")
    return place


def sum_heads(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """Over the edges into each node: [num_dst, C], or [num_dst, K, C] with "none"."""
    alpha, h = alpha.contiguous(), h.contiguous()
    _, heads, channels = h.shape
    summed = reduce == "sum"
    out = h.new_empty((graph.num_dst, channels) if summed else (graph.num_dst, heads, channels))
    of = sizes(h, heads, channels, "HEADS_TO_SUM" if summed else "HEADS_TO_HEADS")
    run("mimogc_sum", graph._struct, of, 0, pointer(alpha), pointer(h), pointer(out))
    return out


def transpose(alpha: Tensor, g: Tensor, graph: Graph, reduce: str) -> Tensor:
    """Over the edges out of each node: [num_src, K, C] from g [num_dst, C], or [num_dst, K, C] with "none"."""
    alpha, g = alpha.contiguous(), g.contiguous()
    heads, channels = alpha.size(1), g.size(-1)
    out = g.new_empty((graph.num_src, heads, channels))
    of = sizes(g, heads, channels, "SHARED_TO_HEADS" if reduce == "sum" else "HEADS_TO_HEADS")
    run("mimogc_sum", graph._struct, of, 1, pointer(alpha), pointer(g), pointer(out))
    return out


def sample(g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """[E, K]: ⟨g_i, h_k(j)⟩ of every edge; g is [num_dst, C], or [num_dst, K, C] with "none"."""
    g, h = g.contiguous(), h.contiguous()
    _, heads, channels = h.shape
    out = h.new_empty((graph.num_edges, heads))
    of = sizes(h, heads, channels, "HEADS_TO_SUM" if reduce == "sum" else "HEADS_TO_HEADS")
    run("mimogc_dot", graph._struct, of, pointer(g), pointer(h), pointer(out))
    return out


def sum_grad(alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, reduce: str) -> tuple[Tensor, Tensor]:
    """Gradients of `sum_heads` to alpha and h, in one pass."""
    alpha, h, g = alpha.contiguous(), h.contiguous(), g.contiguous()
    grad_alpha, grad_h = torch.empty_like(alpha), torch.empty_like(h)
    of = sizes(h, h.size(1), h.size(2), "HEADS_TO_SUM" if reduce == "sum" else "HEADS_TO_HEADS")
    given = pointer(alpha), pointer(h), pointer(g)
    run("mimogc_sum_grad", graph._struct, of, *given, pointer(grad_alpha), pointer(grad_h))
    return grad_alpha, grad_h


def tanh_sum(s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, graph: Graph) -> Tensor:
    """[num_dst, C]: Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k) h_k(j)."""
    _, heads, channels = h.shape
    out = h.new_empty((graph.num_dst, channels))
    scores = for_one_call(pointer(s), pointer(t), pointer(edge), heads)
    of = sizes(h, heads, channels)
    run("mimogc_tanh_sum", graph._struct, of, scores, 0, graph.num_dst, pointer(h), pointer(out))
    return out


def tanh_sum_grad(
    s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `tanh_sum` to s, t, h and edge."""
    _, heads, channels = h.shape
    grads = torch.empty_like(s), torch.empty_like(t), torch.empty_like(h), h.new_empty((graph.num_edges, heads))
    scores = for_one_call(pointer(s), pointer(t), pointer(edge), heads)
    places = [pointer(grad) for grad in grads]
    run("mimogc_tanh_sum_grad", graph._struct, sizes(h, heads, channels), scores, pointer(h), pointer(g), *places)
    return grads


def _pairs(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    slope: float,
    table: Tensor | None = None,
    kinds: Tensor | None = None,
    received: Tensor | None = None,
) -> tuple[Any, Any]:
    """MimogcSizes and MimogcPairs."""
    heads, channels = att.shape
    places = map(pointer, (source, target, att, table, kinds))
    types = 0 if table is None else table.size(0)
    return sizes(att, heads, channels, slope=slope), for_one_call(*places, types, pointer(received))


def pair_scores(
    source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph, edge: _plain.Edge = None
) -> Tensor:
    """[E, K]: att_k · LeakyReLU(source_k(j) + target_k(i)) of every edge; source, target [N, K, C], att [K, C]."""
    if edge is not None:
        return _plain.pair_scores(source, target, att, slope, graph, edge)
    out = source.new_empty((graph.num_edges, att.size(0)))
    run("mimogc_pair_scores", graph._struct, *_pairs(source, target, att, slope), pointer(out))
    return out


def pair_scores_grad(
    source: Tensor, target: Tensor, att: Tensor, slope: float, g: Tensor, graph: Graph, edge: _plain.Edge = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `pair_scores` to source, target and att."""
    if edge is not None:
        return _plain.pair_scores_grad(source, target, att, slope, g, graph, edge)
    found: Any = pair_ends_grad(source, target, att, slope, g, graph)
    return found  # type: ignore[no-any-return]


def pair_ends_grad(
    source: Tensor, target: Tensor, att: Tensor, slope: float, g: Tensor, graph: Graph, same: bool = False
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The same without edges' own terms. With `same`, where source is target, the first is that to both."""
    grad_source = torch.empty_like(source)
    grads = grad_source, grad_source if same else torch.empty_like(target), torch.empty_like(att)
    places = [pointer(g), *map(pointer, grads)]
    run("mimogc_pair_scores_grad", graph._struct, *_pairs(source, target, att, slope), *places)
    return grad_source, None if same else grads[1], grads[2]


def attention(
    h: Tensor,
    att: Tensor,
    slope: float,
    links: Any,
    bias: Tensor | None,
    table: Tensor | None = None,
    kinds: Tensor | None = None,
    received: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """[num_dst, C]: Σ_k Σ_j α_k h_k(j) + bias, where α [E, K], the second result, is the softmax of pair scores.

    `links` is a MimogcGraph; with parents, node i as a target is row parent[i] of h. `received` [num_dst, T·K] is
    written: the sum of α over the edges of each type into a node.
    """
    heads, channels = att.shape
    alpha, out = h.new_empty((links.num_edges, heads)), h.new_empty((links.num_dst, channels))
    given = _pairs(h, h, att, slope, table, kinds, received)
    run("mimogc_attention", links, *given, pointer(bias), pointer(alpha), pointer(out))
    return out, alpha


def attention_grad(
    h: Tensor,
    att: Tensor,
    slope: float,
    alpha: Tensor,
    g: Tensor,
    links: Any,
    table: Tensor | None = None,
    kinds: Tensor | None = None,
    received: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of `attention` to h, att and table; `received` is the gradient to what was written there."""
    grad_h, grad_att = torch.empty_like(h), torch.empty_like(att)
    grad_table = None if table is None else torch.empty_like(table)
    given = _pairs(h, h, att, slope, table, kinds, received)
    places = map(
        pointer, (alpha, g, grad_h, grad_h, grad_att, grad_table)
    )  # one array for both ends: it gets their sum
    run("mimogc_attention_grad", links, *given, *places)
    return grad_h, grad_att, grad_table


def softmax(score: Tensor, graph: Graph) -> Tensor:
    """[E, K]: exp(score), divided by its sum over the edges into the same node."""
    alpha = torch.empty_like(score)
    run("mimogc_softmax", graph._struct, sizes(score, score.size(1), 1), pointer(score), pointer(alpha))
    return alpha


def softmax_grad(alpha: Tensor, g: Tensor, graph: Graph) -> Tensor:
    """Gradient of `softmax` to the scores, from what it gave."""
    grad = torch.empty_like(alpha)
    places = pointer(alpha), pointer(g), pointer(grad)
    run("mimogc_softmax_grad", graph._struct, sizes(alpha, alpha.size(1), 1), *places)
    return grad
