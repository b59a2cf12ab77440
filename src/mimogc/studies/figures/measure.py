"""The numbers behind the figures: filters, amplifications, depth curves, and how equal the special cases are."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from mimogc import spectral
from mimogc.data.random_graph import connected_graph
from mimogc.graph import Graph
from mimogc.methods import FAMILIES, Method, of_the_paper
from mimogc.nn import LMGConv, PolynomialConv
from mimogc.nn.coefficients import Free
from mimogc.studies.figures.catalog import DEPTH_WIDTH, Numbers, Progress
from mimogc.theory import collapse_rate, depth_study

ONE_GRAPH = "lmgc1"  # equation 12 with a single graph
CHEBYSHEV_DEGREES = (2, 8, 16)
GCN_WEIGHTS = (4.0, 0.1, -1.0)
GCN_REPEATS = (2, 4, 16)
AMPLIFICATION_NODES, AMPLIFICATION_WIDTH = 24, 4


@functools.lru_cache(maxsize=4)
def synthetic_graph(nodes: int, probability: float, seed: int = 0) -> Graph:
    """A connected undirected Erdős–Rényi graph, the same on every machine."""
    return connected_graph(nodes, probability, np.random.default_rng([seed, nodes]))


@dataclass(frozen=True)
class Shown:
    """A method as the figures show it."""

    label: str
    family: str
    record: Method
    heads: int = 4


def shown() -> dict[str, Shown]:
    """The methods by the paper's names, for which lmgc is equation 12, ordered by family."""
    found = {
        name: Shown(f"{record.label}, K = 4" if record.free_heads else record.label, record.family, record)
        for name, record in of_the_paper().items()
        if record.family
    }
    equation = of_the_paper()["lmgc"]
    found[ONE_GRAPH] = Shown(f"{equation.label}, K = 1", "one graph", equation, 1)
    return dict(sorted(found.items(), key=lambda item: FAMILIES.index(item[1].family)))


def layer_of(method: str, width: int, graph: Graph, loops: bool) -> torch.nn.Module:
    """A new random layer of a method that is shown, `width` channels in and out, in float64."""
    item = shown()[method]
    return item.record.build(width, item.heads, add_self_loops=loops, bias=False, graph=graph).double()


def random_filters(progress: Progress | None = None) -> Numbers:
    """Three random filters in the Fourier domain: what the general graph convolution allows."""
    generator = torch.Generator().manual_seed(0)
    return _filters(lambda values: {f"filter {i}": torch.randn(len(values), generator=generator) for i in (1, 2, 3)})


def chebyshev_filters(progress: Progress | None = None) -> Numbers:
    """Random Chebyshev filters of three degrees."""
    weights = {f"K = {degree}": _normal(degree + 1, degree) for degree in CHEBYSHEV_DEGREES}
    return _filters(
        lambda values: {k: spectral.polynomial_response(w, values, "chebyshev") for k, w in weights.items()}
    )


def gcn_filters(progress: Progress | None = None) -> Numbers:
    """The GCN's filter w·λ for three w."""
    return _filters(lambda values: {f"w = {w:g}".replace("-", "−"): w * values for w in GCN_WEIGHTS})


def repeated_gcn(progress: Progress | None = None) -> Numbers:
    """The product of k GCN filters with random w."""
    return _filters(lambda values: {f"k = {k}": _normal(k, k).prod() * values**k for k in GCN_REPEATS})


def _filters(responses: Callable[[Tensor], dict[str, Tensor]]) -> Numbers:
    """Filters over the eigenvalues λ of a random graph."""
    values = spectral.fourier_basis(synthetic_graph(64, 0.1)).adjacency_values
    return {name: response.tolist() for name, response in {"lambda": values, **responses(values)}.items()}


def _normal(count: int, seed: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)).double()


def amplification(progress: Progress) -> Numbers:
    """D of one random layer of each method, without self-loops, and its ranks and coupling."""
    graph = synthetic_graph(AMPLIFICATION_NODES, 0.15)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(AMPLIFICATION_NODES, AMPLIFICATION_WIDTH).double()
        numbers = {"lambda": spectral.fourier_basis(graph).adjacency_values.tolist()}
        methods = [name for name, item in shown().items() if item.record.linear and name != ONE_GRAPH]
        for done, method in enumerate(methods):
            layer = layer_of(method, AMPLIFICATION_WIDTH, graph, loops=False)
            amplified = spectral.component_amplification(layer, x, graph)
            numbers[f"{method} amplification"] = amplified.flatten().tolist()
            rank, own = spectral.operator_rank(layer, x, graph), spectral.amplification_rank(amplified)
            numbers[f"{method} ranks and coupling"] = [rank, own, spectral.coupling(layer, x, graph)]
            progress((done + 1) / len(methods))
    return numbers


def depth(graph: Graph, x: Tensor, layers: int, progress: Progress) -> Numbers:
    """Effective rank and distance to rank one after each of many random layers of each method.

    With them the slope that theory predicts for the GCN; its weights are uniform, which at this width is as good
    as Gaussian.
    """
    looped = graph.with_self_loops()
    ends = [
        spectral.fourier_basis(looped, 2).adjacency_values,
        spectral.fourier_basis(looped, 1, "largest").adjacency_values,
    ]
    numbers = {"gcn predicted rate": [collapse_rate(torch.cat(ends), DEPTH_WIDTH)]}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        start = x.double() @ torch.randn(x.size(1), DEPTH_WIDTH).double()
        methods = list(shown())
        for done, method in enumerate(methods):
            torch.manual_seed(0)

            def build(level: int, method: str = method, done: int = done) -> torch.nn.Module:
                progress((done + level / layers) / len(methods))
                return layer_of(method, DEPTH_WIDTH, graph, loops=True)

            study = depth_study(build, start, graph, layers)
            numbers[f"{method} effective rank"] = study.effective_rank.tolist()
            numbers[f"{method} rank-one distance"] = study.rank_one_distance.tolist()
    return numbers


def special_cases(progress: Progress | None = None) -> Numbers:
    """For each arrow of the map the largest difference between the two sides, computed by different code."""
    graph, d, c = synthetic_graph(16, 0.2), 3, 2
    n, basis = graph.num_nodes, spectral.fourier_basis(graph)
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
        one, exact = x[:, 0], spectral.mimo_convolution(theta, x, basis)
        siso_by_theta = spectral.siso_convolution(spectral.theta_from_polynomial(w, basis), one, basis)
        degree_one = spectral.polynomial_filter(torch.tensor([0.0, 0.7], dtype=torch.float64), one, graph)
        by_pairs = _each_pair(lambda p, q: spectral.polynomial_filter(v[:, p, q], x[:, p], graph), d, c)
        gcn_pairs = _each_pair(lambda p, q: spectral.gcn_filter(v[1, p, q], x[:, p], graph), d, c)
        mimo_by_theta = spectral.mimo_convolution(spectral.theta_from_polynomial(v, basis), x, basis)
        pairs = {
            "siso → siso polynomial": (siso_by_theta, spectral.polynomial_filter(w, one, graph)),
            "siso polynomial → siso gcn": (degree_one, spectral.gcn_filter(0.7, one, graph)),
            "siso → channel pairs": (spectral.mimo_channel_pairs(theta, x, basis), exact),
            "siso polynomial → mimo polynomial": (by_pairs, polynomial(x, graph)),
            "siso gcn → gcn": (gcn_pairs, gcn(x, graph)),
            "mimo-gc → mimo polynomial": (mimo_by_theta, polynomial(x, graph)),
            "mimo-gc → lmgc": (_lmgc_of_eigenvectors(theta, x, basis), exact),
            "lmgc → gcn": (gcn(x, graph), theirs(x, graph.edge_index)),
        }
    return {name: [float((left - right).abs().max())] for name, (left, right) in pairs.items()}


def _each_pair(filtered: Callable[[int, int], Tensor], d: int, c: int) -> Tensor:
    """[n, c]: the sum over input channels p of a one-channel filter of its own for each pair (p, q)."""
    return torch.stack([torch.stack([filtered(p, q) for p in range(d)]).sum(0) for q in range(c)], dim=1)


def _lmgc_of_eigenvectors(theta: Tensor, x: Tensor, basis: spectral.FourierBasis) -> Tensor:
    """An LMGC on the complete graph with α_k(i,j) = U_ik U_jk and W^(k) = F(Θ)_kᵀ: the MIMO-GC by message passing."""
    u = basis.vectors
    n, c, d = theta.shape
    complete = Graph.from_edge_index(torch.cartesian_prod(torch.arange(n), torch.arange(n)).T, n)
    layer = LMGConv(d, c, coefficients=Free(heads=n, num_edges=n * n), add_self_loops=False, bias=False).double()
    layer.coefficients.weight.copy_(u[complete.dst] * u[complete.src])
    layer.lin.weight.copy_((u.T @ theta.flatten(1)).view(n * c, d))
    out: Tensor = layer(x, complete)
    return out
