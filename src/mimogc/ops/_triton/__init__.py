"""The operators as Triton kernels, for CUDA and ROCm tensors: a `Backend`, like `_native` for the CPU.

Sums are over the edges into a node, gradients over those out of it, each by one program in one order: no atomics, and
results that are the same bit by bit every time. Nothing edge-sized is larger than E × K.
"""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _thresholds, reference
from mimogc.ops._plain import Edge
from mimogc.ops._triton import _launch, _scores, _sums
from mimogc.ops._triton._launch import Order, accumulated, by_source, by_target

NAME = "triton"


def sum_heads(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """Over the edges into each node: [num_dst, C], or [num_dst, K, C] with "none"."""
    alpha, h = alpha.contiguous(), h.contiguous()
    if reduce == "sum":
        return _gathered(by_target(graph), h, alpha, None, None, None)
    heads, channels = h.shape[1:]
    return _flat(by_target(graph), alpha, h, heads, channels, heads * channels, slot=False)


def transpose(alpha: Tensor, g: Tensor, graph: Graph, reduce: str) -> Tensor:
    """Over the edges out of each node: [num_src, K, C] from g [num_dst, C], or [num_dst, K, C] with "none"."""
    alpha, g = alpha.contiguous(), g.contiguous()
    heads, channels = alpha.size(1), g.size(-1)
    width = channels if reduce == "sum" else heads * channels
    return _flat(by_source(graph), alpha, g, heads, channels, width, slot=True)


def sample(g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """[E, K]: ⟨g_i, h_k(j)⟩ of every edge; g is [num_dst, C], or [num_dst, K, C] with "none"."""
    return _product(g.contiguous(), h.contiguous(), graph, reduce).to(h.dtype)


def _product(g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """`sample` in the type of the sums."""
    _, heads, channels = h.shape
    out = torch.empty((graph.num_edges, heads), dtype=accumulated(h.dtype), device=h.device)
    if not h.numel() or not out.numel():
        return out.zero_()
    order = by_source(graph)
    strides = (channels, 0) if reduce == "sum" else (heads * channels, channels)
    arguments = (*_arrays(order), g, h, out, *_counts(order), heads, channels, *strides)
    blocks = _launch.row_blocks(_launch.channel_block(channels))
    _launch.launch(_sums.sample_pairs, order.items, (), arguments, **blocks)
    return out


def sum_grad(alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, reduce: str) -> tuple[Tensor, Tensor]:
    """Gradients of `sum_heads` to alpha and h, in one pass where a block holds all channels."""
    alpha, h, g = alpha.contiguous(), h.contiguous(), g.contiguous()
    if reduce == "none" or h.size(2) > _launch.CHANNELS[-1]:
        return sample(g, h, graph, reduce), transpose(alpha, g, graph, reduce)
    grad_h, grad_alpha, _ = _spread(by_source(graph), alpha.size(1), g, h, alpha, None, None, None)
    return grad_alpha, grad_h


def tanh_sum(s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, graph: Graph) -> Tensor:
    """[num_dst, C]: Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k) h_k(j)."""
    return _gathered(by_target(graph), h, None, s, t, edge)


def tanh_spread(s: Tensor, t: Tensor, edge: Tensor | None, x: Tensor, graph: Graph) -> Tensor:
    """[num_dst, K, F]: Σ_j tanh(s_k(i) + t_k(j) + edge_k) x(j), from x [num_src, F]; K is not 1."""
    return _spread(by_target(graph), s.size(1), x, None, None, s, t, edge)[0]


def tanh_sum_grad(
    s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `tanh_sum` to s, t, h and edge."""
    heads, channels = h.shape[1:]
    if channels > _launch.CHANNELS[-1]:
        kind, sums = h.dtype, accumulated(h.dtype)
        alpha = reference.separable_alpha(s.to(sums), t.to(sums), None if edge is None else edge.to(sums), graph)
        grad_edge = _product(g, h, graph, "sum") * (1 - alpha**2)
        grad_s = _edge_sums(by_target(graph), grad_edge, slot=False).to(kind)
        grad_t = _edge_sums(by_source(graph), grad_edge, slot=True).to(kind)
        return grad_s, grad_t, transpose(alpha.to(kind), g, graph, "sum"), grad_edge.to(kind)
    grad_h, grad_edge, grad_t = _spread(by_source(graph), heads, g, h, None, t, s, edge)
    return _edge_sums(by_target(graph), grad_edge, slot=False), grad_t, grad_h, grad_edge


def pair_scores(source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph, edge: Edge = None) -> Tensor:
    """[E, K]: att_k · LeakyReLU(source_k(j) + target_k(i)) of every edge; source, target [N, K, C], att [K, C]."""
    heads, channels = att.shape
    out = source.new_empty((graph.num_edges, heads))
    if not att.numel() or not out.numel():
        return out.zero_()
    order = by_target(graph)
    features, weight, size = _edge_map(edge, att)
    arguments = (
        *(order.ptr, order.nodes, order.parts, source, target, att, features, weight, out),
        *(*_counts(order), heads, channels, size, slope),
    )
    constants = {"ACC": _launch.constant_type(att.dtype), "EDGE": edge is not None}
    blocks = _launch.score_blocks(channels, edge is not None)
    _launch.launch(_scores.score_pairs, order.items, (), arguments, **constants, **blocks)
    return out


def _edge_map(edge: Edge, instead: Tensor) -> tuple[Tensor, Tensor, int]:
    """Features [E, D], their map as [D, K, C], of which neighbouring columns are read together, and D."""
    return (instead, instead, 0) if edge is None else (edge[0], edge[1].permute(2, 0, 1).contiguous(), edge[0].size(1))


def pair_scores_grad(
    source: Tensor, target: Tensor, att: Tensor, slope: float, g: Tensor, graph: Graph, edge: Edge = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `pair_scores` to source, target and att."""
    heads, channels = att.shape
    features, weight, size = _edge_map(edge, att)
    if not graph.num_edges or not att.numel():
        return torch.zeros_like(source), torch.zeros_like(target), torch.zeros_like(att)
    found = []
    for order, own, other, slot in (
        (by_source(graph), source, target, True),
        (by_target(graph), target, source, False),
    ):
        out, partial = torch.empty_like(own), _partial(order, att.dtype, heads * channels, own)
        rows = 0 if slot else order.items
        by_item = torch.empty((rows, heads, channels), dtype=partial.dtype, device=own.device)
        block = _launch.COLUMNS
        arguments = (
            *(*_arrays(order), own, other, att, features, weight, g, out, partial, by_item),
            *(*_counts(order), heads, channels, size, slope),
        )
        grid, constants = (-(-heads * channels // block),), {"SLOT": slot, "EDGE": edge is not None}
        _launch.launch(_scores.pairs_grad, order.items, grid, arguments, **constants, **_launch.row_blocks(block))
        _launch.add_parts(order, partial, out)
        found.append(out)
    return found[0], found[1], by_item.sum(0).to(att.dtype)


def softmax(score: Tensor, graph: Graph) -> Tensor:
    """[E, K]: exp of the scores, divided by its sum over the edges into the same node."""
    return _softmax(score, score, graph, grad=False)


def softmax_grad(alpha: Tensor, g: Tensor, graph: Graph) -> Tensor:
    """Gradient of `softmax` to the scores, from what it gave."""
    return _softmax(alpha, g, graph, grad=True)


def _arrays(order: Order) -> tuple[Tensor, ...]:
    return order.ptr, order.nodes, order.slot, order.parts


def _counts(order: Order) -> tuple[int, int, int]:
    return order.num_rows, order.num_parts, _thresholds.SPLIT_EDGES


def _partial(order: Order, dtype: torch.dtype, width: int, like: Tensor) -> Tensor:
    """Room for what the parts of rows give."""
    return torch.empty((order.num_parts, width), dtype=accumulated(dtype), device=like.device)


def _gathered(
    order: Order, h: Tensor, alpha: Tensor | None, own: Tensor | None, other: Tensor | None, edge: Tensor | None
) -> Tensor:
    """[rows, C] from h [N, K, C] with alpha, or with tanh(own + other + edge)."""
    _, heads, channels = h.shape
    out = h.new_empty((order.num_rows, channels))
    if not h.numel() or not order.nodes.numel():
        return out.zero_()
    partial = _partial(order, h.dtype, channels, h)
    weights = [h if value is None else value for value in (alpha, own, other, edge)]
    block = _launch.channel_block(channels)
    arguments = (order.ptr, order.nodes, order.parts, *weights, h, out, partial, *_counts(order))
    arguments += (int(edge is not None), heads, channels)
    grid = (-(-channels // block),)
    blocks = _launch.gather_blocks(block, alpha is None)
    _launch.launch(_sums.gather_sum, order.items, grid, arguments, TANH=alpha is None, **blocks)
    _launch.add_parts(order, partial, out)
    return out


def _flat(
    order: Order, alpha: Tensor, values: Tensor, heads: int, channels: int, width: int, slot: bool, stride: int = -1
) -> Tensor:
    """[rows, K, C] from values with rows of `width` numbers, K · C or C, which lie `stride` apart."""
    out = values.new_empty((order.num_rows, heads, channels))
    if not out.numel() or not order.nodes.numel():
        return out.zero_()
    partial = _partial(order, values.dtype, heads * channels, values)
    block = _launch.COLUMNS
    arguments = (*_arrays(order), alpha, values, out, partial, *_counts(order))
    arguments += (heads, channels, width if stride < 0 else stride, width)
    grid = (-(-heads * channels // block),)
    _launch.launch(_sums.flat_sum, order.items, grid, arguments, SLOT=slot, **_launch.row_blocks(block))
    _launch.add_parts(order, partial, out)
    return out


def _edge_sums(order: Order, values: Tensor, slot: bool) -> Tensor:
    """[rows, K]: sums of values [E, K] over the edges of each row."""
    one, heads = values.new_ones(1), values.size(1)
    return _flat(order, values, one, heads, 1, 1, slot, stride=0).squeeze(2)


def _spread(
    order: Order,
    heads: int,
    values: Tensor,
    h: Tensor | None,
    alpha: Tensor | None,
    own: Tensor | None,
    other: Tensor | None,
    edge: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """[rows, K, C] from values [N, C]; with h what `Sample` gives, [E, K]; with tanh its sums, [rows, K], too."""
    channels = values.size(1)
    out = values.new_empty((order.num_rows, heads, channels))
    sampled = values.new_empty((0 if h is None else order.nodes.numel(), heads))
    sums = values.new_empty((order.num_rows, heads))
    if not out.numel() or not order.nodes.numel():
        return out.zero_(), sampled.zero_(), sums.zero_()
    partial, of_sums = (_partial(order, values.dtype, width, values) for width in (heads * channels, heads))
    weights = [values if value is None else value for value in (alpha, own, other, edge)]
    mine = values if h is None else h
    arguments = (*_arrays(order), *weights, values, mine, out, partial, sampled, sums, of_sums, *_counts(order))
    arguments += (int(edge is not None), heads, channels)
    of_heads, block = _launch.head_block(heads, values.dtype), _launch.channel_block(channels)
    grid = (-(-heads // of_heads), -(-channels // block))
    blocks = _launch.row_blocks(block, BK=of_heads)
    _launch.launch(_sums.spread_sum, order.items, grid, arguments, TANH=alpha is None, SAMPLE=h is not None, **blocks)
    _launch.add_parts(order, partial, out)
    if h is not None and alpha is None:
        _launch.add_parts(order, of_sums, sums)
    return out, sampled, sums


def _softmax(score: Tensor, g: Tensor, graph: Graph, grad: bool) -> Tensor:
    out, heads, order = torch.empty_like(score), score.size(1), by_target(graph)
    if not out.numel():
        return out
    partial = _partial(order, score.dtype, 2 * heads, score)
    blocks = {"BR": 1, "BE": _launch.SOFTMAX_EDGES, "BC": _launch.SOFTMAX_HEADS}
    grid = (-(-heads // _launch.SOFTMAX_HEADS),)
    arguments = (order.ptr, order.parts, score, g, out, partial, *_counts(order), heads)
    _launch.launch(_scores.softmax_rows, order.items, grid, arguments, GRAD=grad, **blocks)
    if order.num_parts:
        rest = (order.parts, order.begin, score, g, out, partial, order.num_parts, heads)
        _launch.launch(_scores.softmax_parts, order.num_parts, grid, rest, GRAD=grad, **blocks)
    return out
