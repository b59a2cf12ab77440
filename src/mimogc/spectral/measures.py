"""Over-smoothing measures of node features: x is [N, C], or a batch [..., N, C]; all in float64."""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.spectral.basis import LAPLACIANS, check_choice


def effective_rank(x: Tensor) -> Tensor:
    r"""The effective rank of Roy and Vetterli: the exponential of the entropy of the singular values.

    .. math::
        \exp\Bigl(-\sum_r p_r \log p_r\Bigr), \quad p_r = \sigma_r / \sum_s \sigma_s

    It is between 1 and min(N, C), and 0 for a zero matrix.
    """
    sigma = _singular_values(x)
    total = sigma.sum(-1, keepdim=True)
    p = sigma / total.where(total > 0, torch.ones_like(total))
    rank = torch.exp(torch.special.entr(p).sum(-1))
    return torch.where(total.squeeze(-1) > 0, rank, torch.zeros_like(rank))


def rank_one_distance(x: Tensor) -> Tensor:
    r"""The relative distance to the nearest rank-one matrix, :math:`\sqrt{\sum_{r\ge2}\sigma_r^2}/\|X\|_F`.

    It goes to zero exactly when all nodes, or all channels, become multiples of each other. 0 for a zero matrix.
    """
    sigma = _singular_values(x)
    norm = sigma.norm(dim=-1)
    distance: Tensor = sigma[..., 1:].norm(dim=-1) / norm.where(norm > 0, torch.ones_like(norm))
    return distance


def dirichlet_energy(x: Tensor, graph: Graph, laplacian: str = "normalized") -> Tensor:
    r"""The Dirichlet energy, :math:`\frac{1}{2} \sum_{(j,i)\in E} \|x_i/\sqrt{d_i} - x_j/\sqrt{d_j}\|^2`.

    On an undirected graph without isolated nodes it is :math:`tr(X^\top L_{sym} X)`. With
    ``laplacian="combinatorial"`` features are not divided, and it is :math:`tr(X^\top (D - A) X)`.
    """
    _check_features(x)
    check_choice("laplacian", laplacian, LAPLACIANS)
    if x.size(-2) != graph.num_nodes:
        raise ValueError(f"x: expected {graph.num_nodes} nodes, got shape {list(x.shape)}")
    x = x.double()
    if laplacian == "normalized":
        # A node of in-degree 0 can only be a source in a directed graph; A_sym gives its edges weight 0.
        x = x * graph.degree_scale(torch.float64).unsqueeze(-1)
    difference = x.index_select(-2, graph.dst) - x.index_select(-2, graph.src)
    return difference.square().sum((-2, -1)) / 2


def mean_average_distance(x: Tensor, graph: Graph | None = None) -> Tensor:
    r"""The mean average distance of Chen et al.: over nodes, of the mean cosine distance to the others.

    The others are all other nodes, or with ``graph`` the sources of the edges into the node (self-loops
    apart). Every such pair counts, also one at distance zero; nodes without a partner do not. A zero vector
    is at distance 1 from everything. With no pair at all the result is 0.
    """
    _check_features(x)
    x = x.double()
    norm = x.norm(dim=-1, keepdim=True)
    unit = x / norm.where(norm > 0, torch.ones_like(norm))
    if graph is None:
        # Σ_{j≠i} (1 − u_i·u_j) needs only the sum of all unit vectors.
        n = x.size(-2)
        own = unit.square().sum(-1)
        similarity = unit @ unit.sum(-2).unsqueeze(-1)
        total = (n - 1) - (similarity.squeeze(-1) - own)
        return total.mean(-1) / (n - 1) if n > 1 else x.new_zeros(x.shape[:-2])
    if x.size(-2) != graph.num_nodes:
        raise ValueError(f"x: expected {graph.num_nodes} nodes, got shape {list(x.shape)}")
    proper = graph.src != graph.dst
    src, dst = graph.src[proper], graph.dst[proper]
    distance = 1 - (unit.index_select(-2, dst) * unit.index_select(-2, src)).sum(-1)  # [..., E]
    count = torch.bincount(dst, minlength=graph.num_nodes)
    total = x.new_zeros(x.shape[:-1]).index_add(-1, dst, distance)
    if not bool(count.any()):
        return x.new_zeros(x.shape[:-2])
    return (total[..., count > 0] / count[count > 0]).mean(-1)


def _singular_values(x: Tensor) -> Tensor:
    _check_features(x)
    values: Tensor = torch.linalg.svdvals(x.double())
    return values


def _check_features(x: Tensor) -> None:
    if x.dim() < 2:
        raise ValueError(f"x: expected node features [N, C] or a batch [..., N, C], got shape {list(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"x: expected floating-point features, got {x.dtype}")
