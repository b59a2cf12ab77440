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


def separable_alpha(s: Tensor, t: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    """[E, K]: α_k(i,j) = tanh(s_k(i) + t_k(j) + edge_k(i,j))."""
    score = s[graph.dst] + t[graph.src]
    return torch.tanh(score if edge is None else score + edge)


def propagate_tanh(s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, graph: Graph) -> Tensor:
    """Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k(i,j)) h_k(j)."""
    return propagate(separable_alpha(s, t, edge, graph), h, graph, "sum")


def pair_scores(source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph) -> Tensor:
    """[E, K]: att_k · LeakyReLU(source_k(j) + target_k(i))."""
    both = source[graph.src] + target[graph.dst]  # [E, K, C]
    return (torch.nn.functional.leaky_relu(both, slope) * att).sum(-1)


# Inside an operator of the torch library autograd does not record, so there the gradients are written out.


def propagate_grad(alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, reduce: str) -> tuple[Tensor, Tensor]:
    """Gradients of `propagate` to alpha and h."""
    at_target = g[graph.dst] if reduce == "none" else g[graph.dst].unsqueeze(1)  # [E, K or 1, C]
    grad_alpha = (at_target * h[graph.src]).sum(-1)
    grad_h = torch.zeros_like(h).index_add(0, graph.src, alpha.unsqueeze(-1) * at_target)
    return grad_alpha, grad_h


def propagate_tanh_grad(
    s: Tensor, t: Tensor, h: Tensor, edge: Tensor | None, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `propagate_tanh` to s, t, h and to the scores [E, K]."""
    alpha = separable_alpha(s, t, edge, graph)
    grad_alpha, grad_h = propagate_grad(alpha, h, g, graph, "sum")
    grad_score = grad_alpha * (1 - alpha**2)
    grad_s = torch.zeros_like(s).index_add(0, graph.dst, grad_score)
    grad_t = torch.zeros_like(t).index_add(0, graph.src, grad_score)
    return grad_s, grad_t, grad_h, grad_score
