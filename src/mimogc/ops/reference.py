"""Propagation in plain torch: the specification of the kernels, and what runs where there are none.

Differentiable to any order, on any device, in any floating type; needs memory for E·K·C numbers.
"""

from collections.abc import Callable

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


def gradients(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], g: Tensor) -> tuple[Tensor, ...]:
    """The gradients of function(*inputs) for the output gradient g."""
    with torch.enable_grad():
        inputs = tuple(value.detach().requires_grad_() for value in inputs)
        return torch.autograd.grad(function(*inputs), inputs, g)
