"""Component amplification: what a layer does to each Fourier component, and how many graphs that takes.

J[i,c,j,f] is the layer as a linear map and Ĵ = U J U its transform over the nodes. A MIMO-GC is exactly a
layer whose Ĵ[k,c,l,f] is diagonal in (k, l). Layers with `operator` are measured in closed form with their
coefficients frozen at x; any other callable ``layer(x, edge_index)`` by automatic differentiation, which then
includes everything that depends on x.
"""

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.spectral.basis import FourierBasis, check_graph, fourier_basis
from mimogc.spectral.linear import ClosedForm, Layer, linear_form


def component_amplification(
    layer: Layer,
    x: Tensor,
    graph: Graph,
    basis: FourierBasis | None = None,
    differentiate: bool = False,
    memory_limit: int = 2 * 2**30,
) -> Tensor:
    r"""The diagonal of the layer in the Fourier domain: the filter of the nearest MIMO-GC, [M, C, F].

    .. math::
        D_{kcf} = \sum_{ij} U_{ik} J_{icjf} U_{jk} = \sum_m (u_k^\top \tilde{A}^{(m)} u_k)\, W^{(m)}_{fc}

    Args:
        layer: a layer with ``operator(x, graph)``, or any callable ``layer(x, edge_index)``.
        x: [N, F] where the coefficients are taken.
        graph: the graph the layer runs on.
        basis: the Fourier basis; by default that of the graph without regard to direction. A layer that adds
            self-loops is diagonal in the basis of ``graph.with_self_loops()`` if anywhere.
        differentiate: also differentiate the coefficients, where they are functions of x.
        memory_limit: refuse a Jacobian that needs more than this many bytes.
    """
    basis = _basis(graph, basis)
    return linear_form(layer, x, graph, differentiate, memory_limit).diagonal(basis.vectors)


def coupling(
    layer: Layer,
    x: Tensor,
    graph: Graph,
    basis: FourierBasis | None = None,
    differentiate: bool = False,
    memory_limit: int = 2 * 2**30,
) -> float:
    r"""The part of the layer that no MIMO-GC has, :math:`1 - \|D\|^2/\|J\|^2`, in [0, 1].

    It is zero for a MIMO-GC, for polynomials, and for GCN and ACM in the basis of the graph they run on. A
    layer that is zero couples nothing.
    """
    basis = _basis(graph, basis)
    basis.check_complete()  # what is outside an incomplete one cannot be told from coupling
    form = linear_form(layer, x, graph, differentiate, memory_limit)
    total = float(form.squared_norm())
    if total == 0:
        return 0.0
    return max(0.0, 1.0 - float(form.diagonal(basis.vectors).square().sum()) / total)


def operator_rank(
    layer: Layer,
    x: Tensor,
    graph: Graph,
    differentiate: bool = False,
    tolerance: float | None = None,
    memory_limit: int = 2 * 2**30,
) -> int:
    r"""The smallest number of computational graphs that can express the layer, whatever they are.

    This is the operator-Schmidt rank: the rank of J rearranged as an N² × (C·F) matrix. Shared component
    amplification is ``operator_rank == 1``. For a layer with ``operator`` it comes from QR decompositions of
    alpha [E, K] and weight [K, F·C]; nothing of size N² is formed.

    Args:
        layer: a layer with ``operator(x, graph)``, or any callable ``layer(x, edge_index)``.
        x: [N, F] where the coefficients are taken.
        graph: the graph the layer runs on.
        differentiate: also differentiate the coefficients, where they are functions of x.
        tolerance: singular values below this part of the largest count as zero; by default 1e-10 for a layer
            in float64 and 1e-5 in float32.
        memory_limit: refuse a Jacobian that needs more than this many bytes.
    """
    form = linear_form(layer, x, graph, differentiate, memory_limit)
    if tolerance is None:
        tolerance = 1e-10 if form.precision == torch.float64 else 1e-5
    return _rank(form.schmidt_values(), tolerance)


def amplification_rank(amplification: Tensor, tolerance: float = 1e-6) -> int:
    """The numerical rank of D as an N × (C·F) matrix: how many amplifications there are. At most `operator_rank`.

    Args:
        amplification: [N, C, F] from `component_amplification`.
        tolerance: singular values below this part of the largest count as zero.
    """
    if amplification.dim() != 3:
        raise ValueError(f"amplification: expected shape [N, C, F], got {list(amplification.shape)}")
    return _rank(torch.linalg.svdvals(amplification.double().flatten(1)), tolerance)


def graph_gram(layer: Layer, x: Tensor, graph: Graph) -> Tensor:
    r"""[K, K] the Gram matrix of the graphs, :math:`\langle \tilde{A}^{(k)}, \tilde{A}^{(l)} \rangle_F`.

    The graphs u_k u_kᵀ of a MIMO-GC are orthonormal. Softmax attention has positive weights on shared edges,
    so its graphs never are.
    """
    if not hasattr(layer, "operator"):
        raise TypeError(f"layer: expected a layer with operator(x, graph), got {type(layer).__name__}")
    form = linear_form(layer, x, graph)
    assert isinstance(form, ClosedForm)
    return form.alpha.T @ form.alpha


def _basis(graph: Graph, basis: FourierBasis | None) -> FourierBasis:
    check_graph(graph)
    if basis is None:
        return fourier_basis(graph if graph.is_undirected else graph.to_undirected())
    if basis.num_nodes != graph.num_nodes:
        raise ValueError(f"basis: expected one of {graph.num_nodes} nodes, like graph, got {basis.num_nodes}")
    return basis


def _rank(sigma: Tensor, tolerance: float) -> int:
    if sigma.numel() == 0 or float(sigma.max()) == 0:
        return 0
    return int((sigma > tolerance * sigma.max()).sum())
