"""The numbers behind the figures: filters, amplifications, depth curves, and how equal the special cases are."""

import functools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from mimogc.experiments.random_graph import connected_graph
from mimogc.graph import Graph
from mimogc.nn import GINLayer, LMGConv, MIMOConv, PolynomialConv
from mimogc.nn.coefficients import Free
from mimogc.spectral import (
    FourierBasis,
    amplification_rank,
    component_amplification,
    coupling,
    fourier_basis,
    gcn_filter,
    mimo_channel_pairs,
    mimo_convolution,
    operator_rank,
    polynomial_filter,
    polynomial_response,
    siso_convolution,
    theta_from_polynomial,
)
from mimogc.theory import collapse_rate, depth_study

Numbers = dict[str, list[float]]
Progress = Callable[[float], None]

LABELS = {
    "gcn": "GCN",
    "fagcn": "FAGCN",
    "lmgc1": "LMGC (eq. 12), K = 1",
    "gat": "GAT, K = 4",
    "gatv2": "GATv2, K = 4",
    "acm": "ACM bank",
    "chebyshev": "Chebyshev, degree 2",
    "gin": "GIN",
    "gated": "Gated",
    "sheaf": "Sheaf, s = 2",
    "lmgc": "LMGC (eq. 12), K = 4",
    "mimogc": "MIMO-GC",
}
CHEBYSHEV_DEGREES = (2, 8, 16)
GCN_WEIGHTS = (4.0, 0.1, -1.0)
GCN_REPEATS = (2, 4, 16)
AMPLIFICATION_NODES, AMPLIFICATION_WIDTH = 24, 4
DEPTH_WIDTH = 16


@functools.lru_cache(maxsize=4)
def synthetic_graph(nodes: int, probability: float, seed: int = 0) -> Graph:
    """A connected undirected Erdős–Rényi graph, the same on every machine."""
    return connected_graph(nodes, probability, np.random.default_rng([seed, nodes]))


def layer_of(method: str, width: int, graph: Graph, loops: bool) -> torch.nn.Module:
    """A new random layer of a method, `width` channels in and out, in float64."""
    layer: torch.nn.Module
    if method == "gin":
        layer = GINLayer(width, width)
    elif method == "mimogc":
        layer = MIMOConv(width, width, _basis(graph), bias=False)
    elif method == "chebyshev":
        layer = PolynomialConv(width, width, 2, "chebyshev", add_self_loops=loops, bias=False)
    elif method == "lmgc1":
        layer = LMGConv(width, width, 1, "eq12", add_self_loops=loops, bias=False)
    else:  # lmgc is the paper's equation 12 in these figures
        coefficients = "eq12" if method == "lmgc" else method
        layer = LMGConv(width, width, coefficients=coefficients, add_self_loops=loops, bias=False)
    return layer.double()


@functools.lru_cache(maxsize=2)
def _basis(graph: Graph) -> FourierBasis:
    return fourier_basis(graph)


def random_filters() -> Numbers:
    """Three random filters in the Fourier domain: what the general graph convolution allows."""
    values = _adjacency_values()
    generator = torch.Generator().manual_seed(0)
    filters = {f"filter {i}": torch.randn(values.numel(), generator=generator).tolist() for i in (1, 2, 3)}
    return {"lambda": values.tolist(), **filters}


def chebyshev_filters() -> Numbers:
    """Random Chebyshev filters of three degrees."""
    values, numbers = _adjacency_values(), {}
    for degree in CHEBYSHEV_DEGREES:
        weights = torch.randn(degree + 1, generator=torch.Generator().manual_seed(degree)).double()
        numbers[f"K = {degree}"] = polynomial_response(weights, values, "chebyshev").tolist()
    return {"lambda": values.tolist(), **numbers}


def gcn_filters() -> Numbers:
    """The GCN's filter w·λ for three w."""
    values = _adjacency_values()
    return {
        "lambda": values.tolist(),
        **{f"w = {w:g}".replace("-", "−"): (w * values).tolist() for w in GCN_WEIGHTS},
    }


def repeated_gcn() -> Numbers:
    """The product of k GCN filters with random w."""
    values, numbers = _adjacency_values(), {}
    for k in GCN_REPEATS:
        weights = torch.randn(k, generator=torch.Generator().manual_seed(k)).double()
        numbers[f"k = {k}"] = (weights.prod() * values**k).tolist()
    return {"lambda": values.tolist(), **numbers}


def _adjacency_values() -> Tensor:
    return fourier_basis(synthetic_graph(64, 0.1)).adjacency_values


def amplification(progress: Progress) -> Numbers:
    """D of one random layer of each method, without self-loops, and its ranks and coupling."""
    graph = synthetic_graph(AMPLIFICATION_NODES, 0.15)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(AMPLIFICATION_NODES, AMPLIFICATION_WIDTH).double()
        numbers = {"lambda": fourier_basis(graph).adjacency_values.tolist()}
        methods = [method for method in LABELS if method not in ("gin", "lmgc1")]
        for done, method in enumerate(methods):
            layer = layer_of(method, AMPLIFICATION_WIDTH, graph, loops=False)
            amplified = component_amplification(layer, x, graph)
            numbers[f"{method} amplification"] = amplified.flatten().tolist()
            rank, own = operator_rank(layer, x, graph), amplification_rank(amplified)
            numbers[f"{method} ranks and coupling"] = [rank, own, coupling(layer, x, graph)]
            progress((done + 1) / len(methods))
    return numbers


def depth(graph: Graph, x: Tensor, layers: int, progress: Progress) -> Numbers:
    """Effective rank and distance to rank one after each of many random layers of each method.

    With them the slope that theory predicts for the GCN; its weights are uniform, which at this width is as good
    as Gaussian.
    """
    looped = graph.with_self_loops()
    ends = [fourier_basis(looped, 2).adjacency_values, fourier_basis(looped, 1, "largest").adjacency_values]
    numbers = {"gcn predicted rate": [collapse_rate(torch.cat(ends), DEPTH_WIDTH)]}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        start = x.double() @ torch.randn(x.size(1), DEPTH_WIDTH).double()
        for done, method in enumerate(LABELS):
            torch.manual_seed(0)

            def build(level: int, method: str = method, done: int = done) -> torch.nn.Module:
                progress((done + level / layers) / len(LABELS))
                return layer_of(method, DEPTH_WIDTH, graph, loops=True)

            study = depth_study(build, start, graph, layers)
            numbers[f"{method} effective rank"] = study.effective_rank.tolist()
            numbers[f"{method} rank-one distance"] = study.rank_one_distance.tolist()
    return numbers


def special_cases() -> Numbers:
    """For each arrow of the map the largest difference between the two sides, computed by different code."""
    graph, d, c = synthetic_graph(16, 0.2), 3, 2
    n, basis = graph.num_nodes, fourier_basis(graph)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        x, theta = torch.randn(n, d).double(), torch.randn(n, c, d).double()
        w, v = torch.randn(4).double(), torch.randn(4, d, c).double()
        polynomial = PolynomialConv(d, c, 3, bias=False).double()
        polynomial.weight.copy_(v)
        gcn = LMGConv(d, c, coefficients="gcn", add_self_loops=False, bias=False).double()
        gcn.lin.weight.copy_(v[1].T)
        theirs = GCNConv(d, c, add_self_loops=False, bias=False).double()
        theirs.lin.weight.copy_(v[1].T)
        one, exact = x[:, 0], mimo_convolution(theta, x, basis)
        by_pairs = _each_pair(lambda p, q: polynomial_filter(v[:, p, q], x[:, p], graph), d, c)
        gcn_pairs = _each_pair(lambda p, q: gcn_filter(v[1, p, q], x[:, p], graph), d, c)
        pairs = {
            "siso → siso polynomial": (
                siso_convolution(theta_from_polynomial(w, basis), one, basis),
                polynomial_filter(w, one, graph),
            ),
            "siso polynomial → siso gcn": (
                polynomial_filter(torch.tensor([0.0, 0.7], dtype=torch.float64), one, graph),
                gcn_filter(0.7, one, graph),
            ),
            "siso → channel pairs": (mimo_channel_pairs(theta, x, basis), exact),
            "siso polynomial → mimo polynomial": (by_pairs, polynomial(x, graph)),
            "siso gcn → gcn": (gcn_pairs, gcn(x, graph)),
            "mimo-gc → mimo polynomial": (
                mimo_convolution(theta_from_polynomial(v, basis), x, basis),
                polynomial(x, graph),
            ),
            "mimo-gc → lmgc": (_lmgc_of_eigenvectors(theta, x, basis), exact),
            "lmgc → gcn": (gcn(x, graph), theirs(x, graph.edge_index)),
        }
    return {name: [float((left - right).abs().max())] for name, (left, right) in pairs.items()}


def _each_pair(filtered: Callable[[int, int], Tensor], d: int, c: int) -> Tensor:
    """[n, c]: the sum over input channels p of a one-channel filter of its own for each pair (p, q)."""
    return torch.stack([torch.stack([filtered(p, q) for p in range(d)]).sum(0) for q in range(c)], dim=1)


def _lmgc_of_eigenvectors(theta: Tensor, x: Tensor, basis: FourierBasis) -> Tensor:
    """An LMGC on the complete graph with α_k(i,j) = U_ik U_jk and W^(k) = F(Θ)_kᵀ: the MIMO-GC by message passing."""
    u = basis.vectors
    n, c, d = theta.shape
    complete = Graph.from_edge_index(torch.cartesian_prod(torch.arange(n), torch.arange(n)).T, n)
    layer = LMGConv(
        d, c, coefficients=Free(heads=n, num_edges=n * n), add_self_loops=False, bias=False
    ).double()
    layer.coefficients.weight.copy_(u[complete.dst] * u[complete.src])
    layer.lin.weight.copy_((u.T @ theta.flatten(1)).view(n * c, d))
    out: Tensor = layer(x, complete)
    return out
