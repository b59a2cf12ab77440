"""The operators in plain torch, some edges at a time: for devices, types and machines without kernels.

The same arithmetic as `reference`, but arrays of E·K·C numbers never exist at once, forward or backward.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import _thresholds, reference

NAME = "reference"
# Features of the edges [E, D], and what maps them to K rows of C channels [K, C, D]
Edge = tuple[Tensor, Tensor] | None


def _parts(graph: Graph, *like: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Edges, their sources and their targets, so many at a time as `PLAIN_NUMBERS` of this shape allow."""
    numbers = max(1, like[0] * like[1])
    step = max(1, _thresholds.PLAIN_NUMBERS // numbers)
    src, dst = graph.src, graph.dst  # once: a large graph does not keep them
    for first in range(0, graph.num_edges, step):
        part = slice(first, first + step)
        yield part, src[part], dst[part]


def _at(g: Tensor, nodes: Tensor, reduce: str) -> Tensor:
    return g[nodes] if reduce == "none" else g[nodes].unsqueeze(1)  # [E, K or 1, C]


def sum_heads(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """`reference.propagate`."""
    out = h.new_zeros((graph.num_dst, *h.shape[1 if reduce == "none" else 2 :]))
    for part, src, dst in _parts(graph, *h.shape[1:]):
        message = alpha[part].unsqueeze(-1) * h[src]
        out.index_add_(0, dst, message.sum(1) if reduce == "sum" else message)
    return out


def transpose(alpha: Tensor, g: Tensor, graph: Graph, reduce: str) -> Tensor:
    """`reference.transpose`."""
    heads, channels = alpha.size(1), g.size(-1)
    out = g.new_zeros((graph.num_src, heads, channels))
    for part, src, dst in _parts(graph, heads, channels):
        out.index_add_(0, src, alpha[part].unsqueeze(-1) * _at(g, dst, reduce))
    return out


def sample(g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """`reference.sample`."""
    out = h.new_empty((graph.num_edges, h.size(1)))
    for part, src, dst in _parts(graph, *h.shape[1:]):
        out[part] = (_at(g, dst, reduce) * h[src]).sum(-1)
    return out


def sum_grad(alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, reduce: str) -> tuple[Tensor, Tensor]:
    """Gradients of `sum_heads` to alpha and h."""
    return sample(g, h, graph, reduce), transpose(alpha, g, graph, reduce)


def tanh_sum(s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, graph: Graph) -> Tensor:
    """`reference.propagate_tanh`."""
    return sum_heads(reference.separable_alpha(s, t, edge, graph), h, graph, "sum")


def tanh_sum_grad(
    s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `tanh_sum` to s, t, h and edge."""
    alpha = reference.separable_alpha(s, t, edge, graph)
    grad_edge = sample(g, h, graph, "sum") * (1 - alpha**2)
    grad_s = torch.zeros_like(s).index_add_(0, graph.dst, grad_edge)
    grad_t = torch.zeros_like(t).index_add_(0, graph.src, grad_edge)
    return grad_s, grad_t, transpose(alpha, g, graph, "sum"), grad_edge


def _pairs(
    source: Tensor, target: Tensor, att: Tensor, graph: Graph, edge: Edge
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """The same with what goes into LeakyReLU, [so many edges, K, C], in the type of att."""
    for part, src, dst in _parts(graph, *att.shape):
        both = source[src].to(att.dtype) + target[dst].to(att.dtype)
        if edge is not None:
            features, weight = (value.to(att.dtype) for value in (edge[0][part], edge[1]))
            both += (features @ weight.flatten(0, 1).t()).view_as(both)
        yield part, src, dst, both


def pair_scores(source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph, edge: Edge = None) -> Tensor:
    """`reference.pair_scores`."""
    out = source.new_empty((graph.num_edges, att.size(0)))
    for part, _, _, both in _pairs(source, target, att, graph, edge):
        out[part] = (F.leaky_relu(both, slope) * att).sum(-1)
    return out


def _bent(both: Tensor, att: Tensor, slope: float, score: Tensor) -> Tensor:
    """The gradient to what goes into LeakyReLU, from that to the scores."""
    return torch.where(both > 0, score * att, slope * score * att)


def pair_scores_grad(
    source: Tensor, target: Tensor, att: Tensor, slope: float, g: Tensor, graph: Graph, edge: Edge = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `pair_scores` to source, target and att."""
    grad_source, grad_target, grad_att = torch.zeros_like(source), torch.zeros_like(target), torch.zeros_like(att)
    for part, src, dst, both in _pairs(source, target, att, graph, edge):
        score = g[part].unsqueeze(-1)
        grad_att += (score * F.leaky_relu(both, slope)).sum(0)
        grad = _bent(both, att, slope, score)
        grad_source.index_add_(0, src, grad)
        grad_target.index_add_(0, dst, grad)
    return grad_source, grad_target, grad_att


def pair_scores_edge_grad(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    slope: float,
    g: Tensor,
    graph: Graph,
    edge: tuple[Tensor, Tensor],
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Those to the features of the edges and to their map, where needed: of every backend, since they are products.

    Nothing is added into rows that edges share, so there are no atomics on a GPU; 16-bit types are added in float32.
    """
    features, weight = edge
    own = att.to(torch.promote_types(att.dtype, torch.float32))
    grad_features = torch.empty_like(features) if needs[0] else None
    grad_weight = torch.zeros_like(weight, dtype=own.dtype).flatten(0, 1) if needs[1] else None
    for part, _, _, both in _pairs(source, target, own, graph, edge):
        grad = _bent(both, own, slope, g[part].unsqueeze(-1).to(own.dtype)).flatten(1)
        if grad_features is not None:
            grad_features[part] = (grad @ weight.flatten(0, 1).to(own.dtype)).to(features.dtype)
        if grad_weight is not None:
            grad_weight.addmm_(grad.t(), features[part].to(own.dtype))
    return grad_features, None if grad_weight is None else grad_weight.view_as(weight).to(weight.dtype)


def softmax(score: Tensor, graph: Graph) -> Tensor:
    """`reference.softmax`, which has nothing larger than E × K."""
    return reference.softmax(score, graph)


def softmax_grad(alpha: Tensor, g: Tensor, graph: Graph) -> Tensor:
    """Gradient of `softmax` to the scores, from what it gave."""
    weighted = alpha * g
    total = weighted.new_zeros((graph.num_dst, alpha.size(1))).index_add_(0, graph.dst, weighted)
    return weighted - alpha * total[graph.dst]
