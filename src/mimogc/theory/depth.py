"""Rank collapse as a measured rate: repeated random layers, and the slope that theory predicts."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import digamma
from torch import Tensor

from mimogc.graph import Graph
from mimogc.spectral import dirichlet_energy, effective_rank, mean_average_distance, rank_one_distance


@dataclass(frozen=True)
class DepthStudy:
    """Over-smoothing measures of the features after 0, 1, …, depth layers; each [depth + 1], float64."""

    rank_one_distance: Tensor
    effective_rank: Tensor
    dirichlet_energy: Tensor  #: of the features scaled to norm 1
    mean_average_distance: Tensor


def depth_study(build: Callable[[int], Callable[..., Any]], x: Tensor, graph: Graph, depth: int) -> DepthStudy:
    """Apply ``build(1)``, ``build(2)``, … one after another and measure the features after each.

    Features are rescaled to unit mean square after every layer, which changes no direction and prevents underflow.

    Args:
        build: makes the layer of a level; called as ``layer(x, graph)``.
        x: [N, F] the features at the start.
        graph: the graph.
        depth: the number of layers.
    """
    if depth < 1:
        raise ValueError(f"depth: expected at least 1 layer, got {depth}")
    features = [_rescaled(x)]
    with torch.no_grad():
        for level in range(1, depth + 1):
            features.append(_rescaled(build(level)(features[-1], graph)))
    energy = [float(dirichlet_energy(x, graph)) / max(x.double().norm().item() ** 2, 1e-300) for x in features]
    return DepthStudy(
        torch.stack([rank_one_distance(x) for x in features]),
        torch.stack([effective_rank(x) for x in features]),
        torch.tensor(energy, dtype=torch.float64),
        torch.stack([mean_average_distance(x) for x in features]),
    )


def decay_rate(distance: Tensor, floor: float = 1e-10) -> float:
    """The slope per layer of log distance, by least squares from the first quarter to where it reaches the floor.

    The first quarter is left out because there more than one component still counts, and what is below the
    floor because it is rounding.

    Args:
        distance: [depth + 1] from `depth_study`.
        floor: the smallest value to use.
    """
    below = (distance <= floor).nonzero()
    stop = int(below[0]) if below.numel() else distance.numel()
    start = stop // 4
    count = stop - start
    if count < 3:
        raise ValueError(f"distance: expected at least 3 values above {floor=} after the first quarter, got {count}")
    level = torch.arange(start, stop, dtype=torch.float64)
    level = level - level.mean()
    return float((level * distance[start:stop].double().log()).sum() / level.square().sum())


def collapse_rate(eigenvalues: Tensor, width: int | None = None) -> float:
    r"""The slope of log `rank_one_distance` per layer that theory predicts for one aggregation matrix.

    With orthogonal weights it is :math:`\log|\mu_2/\mu_1|`, the two eigenvalues of largest magnitude. Square
    Gaussian weights of width d bring the rows of the two leading components together by themselves, at the
    difference of their first two Lyapunov exponents, which adds :math:`-\frac{1}{2}[\psi(d/2) - \psi((d-1)/2)]`.

    Args:
        eigenvalues: [N] of the aggregation matrix, such as ``basis.adjacency_values`` for A_sym of a
            connected graph that is not bipartite.
        width: the width d of Gaussian weights, or None for orthogonal ones.
    """
    if eigenvalues.dim() != 1 or eigenvalues.numel() < 2:
        raise ValueError(f"eigenvalues: expected a vector of at least 2, got shape {list(eigenvalues.shape)}")
    if width is not None and width < 2:
        raise ValueError(f"width: expected at least 2 channels, got {width}")
    first, second = eigenvalues.abs().sort(descending=True).values[:2].tolist()
    rate = math.log(second / first) if second > 0 else -math.inf
    if width is not None:
        rate -= float(digamma(width / 2) - digamma((width - 1) / 2)) / 2
    return rate


def _rescaled(x: Tensor) -> Tensor:
    norm = x.double().norm().item()  # in float64, where the squares of small numbers are no zeros
    return x * (math.sqrt(x.numel()) / norm) if norm > 0 else x
