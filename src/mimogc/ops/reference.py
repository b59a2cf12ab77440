"""Propagation in plain torch: the specification of the kernels, and what runs where there are none.

Differentiable to any order, on any device, in any floating type; needs memory for E·K·C numbers.
"""

import torch
from torch import Tensor

from mimogc.graph import Graph


def propagate(alpha: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """Σ_j α_k(i,j) h_k(j), summed over k or not."""
    message = alpha.unsqueeze(-1) * h[graph.src]  # [E, K, C]
    if reduce == "sum":
        message = message.sum(dim=1)
    out = message.new_zeros(graph.num_dst, *message.shape[1:])
    return out.index_add(0, graph.dst, message)


def transpose(alpha: Tensor, g: Tensor, graph: Graph, reduce: str) -> Tensor:
    """[num_src, K, C]: Σ_i α_k(i,j) g_k(i), the gradient of `propagate` to h; g has no K where that summed over it."""
    message = alpha.unsqueeze(-1) * _at_targets(g, graph, reduce)
    return message.new_zeros(graph.num_src, *message.shape[1:]).index_add(0, graph.src, message)


def sample(g: Tensor, h: Tensor, graph: Graph, reduce: str) -> Tensor:
    """[E, K]: ⟨g_k(i), h_k(j)⟩ on the edges, the gradient of `propagate` to alpha."""
    return (_at_targets(g, graph, reduce) * h[graph.src]).sum(-1)


def _at_targets(g: Tensor, graph: Graph, reduce: str) -> Tensor:
    return g[graph.dst] if reduce == "none" else g[graph.dst].unsqueeze(1)  # [E, K or 1, C]


def separable_alpha(s: Tensor, t: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    """[E, K]: α_k(i,j) = tanh(s_k(i) + t_k(j) + edge_k(i,j))."""
    score = s[graph.dst] + t[graph.src]
    return torch.tanh(score if edge is None else score + edge)


def propagate_tanh(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    """Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k(i,j)) h_k(j)."""
    return propagate(separable_alpha(s, t, edge, graph), h, graph, "sum")


def pair_scores(
    source: Tensor,
    target: Tensor,
    att: Tensor,
    slope: float,
    graph: Graph,
    edge: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """[E, K]: att_k · LeakyReLU(source_k(j) + target_k(i) + weight_k edge(i,j)), the last term where it is given."""
    both = source[graph.src] + target[graph.dst]  # [E, K, C]
    if edge is not None and weight is not None:
        both = both + torch.einsum("ed,kcd->ekc", edge, weight)
    return (torch.nn.functional.leaky_relu(both, slope) * att).sum(-1)


def softmax(score: Tensor, graph: Graph) -> Tensor:
    """[E, K]: exp(score_k(i,j)), divided by its sum over the edges into i."""
    from torch_geometric.utils import softmax as softmax_of_groups  # which takes longer to import than torch

    out: Tensor = softmax_of_groups(score, graph.dst, num_nodes=graph.num_dst)
    return out
