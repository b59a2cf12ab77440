"""Polynomial graph filters and the GCN: computed sparsely, and as the MIMO-GC that each of them is.

Polynomials are in A_sym, as in the paper; its eigenvalues λ = 1 − basis.values are in [−1, 1], where
Chebyshev polynomials live. A Cayley filter of degree K is c₀ + 2 Re Σ_k c_k C^k with C = (hL − i)(hL + i)⁻¹,
L = I − A_sym, and complex c_k (Levie et al., CayleyNets).
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from mimogc._polynomials import POLYNOMIALS, terms
from mimogc.graph import Graph
from mimogc.spectral.basis import FourierBasis, adjacency_matrix, check_choice


def polynomial_filter(
    coefficients: Tensor, x: Tensor, graph: Graph, polynomial: str = "monomial", zoom: float = 1.0
) -> Tensor:
    r"""A polynomial filter, :math:`\sum_k p_k(A_{sym})\, X V^{(k)}`, with K sparse products.

    Args:
        coefficients: [K + 1] scalars for one channel, or [K + 1, F, C] matrices V^(k). Complex for ``"cayley"``.
        x: [N], or [N, F] with matrices.
        graph: where A_sym is taken from. For the spectral form to exist it must be undirected.
        polynomial: ``"monomial"``, ``"chebyshev"`` or ``"cayley"``.
        zoom: the h of Cayley filters.
    """
    _check_coefficients(coefficients, polynomial)
    expected = 1 if coefficients.dim() == 1 else 2
    if x.dim() != expected or x.size(0) != graph.num_nodes or (expected == 2 and x.size(1) != coefficients.size(1)):
        shape = [graph.num_nodes, coefficients.size(1)] if expected == 2 else [graph.num_nodes]
        raise ValueError(f"x: expected shape {shape} for these coefficients, got {list(x.shape)}")
    signal = x.double()
    if polynomial == "cayley":
        if x.requires_grad:
            raise ValueError(
                "x: a Cayley filter is solved outside automatic differentiation and cannot give the gradient "
                "that x requires; use mimogc.nn.PolynomialConv(basis='cayley')"
            )
        apply = _cayley_product(graph, zoom)
        signal = signal.to(torch.complex128)
    else:
        apply = _adjacency_product(graph)
    out = torch.zeros((), dtype=signal.dtype, device=x.device)
    for term, weight in zip(_terms(apply, signal, len(coefficients), polynomial), coefficients, strict=True):
        out = out + (term * weight if weight.dim() == 0 else term @ weight.to(term.dtype))
    return (out.real if out.is_complex() else out).to(x.dtype)


def gcn_filter(weight: Tensor | float, x: Tensor, graph: Graph) -> Tensor:
    r"""The GCN's filter, :math:`A_{sym} X V` or, for one channel, :math:`w A_{sym} x`.

    Args:
        weight: a scalar w, or [F, C] the matrix V.
        x: [N] or [N, F].
        graph: where A_sym is taken from, with the self-loops it has and no others.
    """
    product = _adjacency_product(graph)(x.double())
    if not isinstance(weight, Tensor) or weight.dim() == 0:
        return (product * weight).to(x.dtype)
    if x.dim() != 2 or weight.dim() != 2 or x.size(1) != weight.size(0):
        raise ValueError(f"weight: expected [F, C] with F of x {list(x.shape)}, got {list(weight.shape)}")
    return (product @ weight.double()).to(x.dtype)


def polynomial_response(
    coefficients: Tensor, adjacency_values: Tensor, polynomial: str = "monomial", zoom: float = 1.0
) -> Tensor:
    r"""The filter in the Fourier domain (Proposition 2), :math:`\sum_k p_k(\lambda) V^{(k)\top}`.

    Args:
        coefficients: [K + 1] or [K + 1, F, C].
        adjacency_values: [M] the eigenvalues λ of A_sym.
        polynomial: ``"monomial"``, ``"chebyshev"`` or ``"cayley"``.
        zoom: the h of Cayley filters.

    Returns:
        [M] or [M, C, F], float64.
    """
    _check_coefficients(coefficients, polynomial)
    values = adjacency_values.double()
    if polynomial == "cayley":
        values = zoom * (1 - values.to(torch.complex128))
        values = (values - 1j) / (values + 1j)
    ones = torch.ones_like(values)
    found = torch.stack(_terms(lambda p: values * p, ones, len(coefficients), polynomial))  # [K + 1, M]
    weight = coefficients.to(found.dtype)
    response = weight @ found if weight.dim() == 1 else torch.einsum("km,kfc->mcf", found, weight)
    return response.real if response.is_complex() else response


def theta_from_polynomial(
    coefficients: Tensor, basis: FourierBasis, polynomial: str = "monomial", zoom: float = 1.0
) -> Tensor:
    """The MIMO-GC that a polynomial filter is (Proposition 2): [N] or [N, C, F] in the node domain."""
    return basis.inverse(polynomial_response(coefficients, basis.adjacency_values, polynomial, zoom))


def theta_from_gcn(weight: Tensor | float, basis: FourierBasis) -> Tensor:
    r"""The filter of the MIMO-GC that a GCN is (Example 1), :math:`F(\Theta)_k = \lambda_k V^\top`.

    Args:
        weight: a scalar w → [N], or [F, C] the matrix V → [N, C, F].
        basis: the basis of the graph the GCN runs on, with its self-loops where it has any.
    """
    matrix = torch.as_tensor(weight, dtype=torch.float64)
    if matrix.dim() not in (0, 2):
        raise ValueError(f"weight: expected a scalar or [F, C], got shape {list(matrix.shape)}")
    return theta_from_polynomial(torch.stack([torch.zeros_like(matrix), matrix]), basis)


def _check_coefficients(coefficients: Tensor, polynomial: str) -> None:
    check_choice("polynomial", polynomial, POLYNOMIALS)
    if coefficients.dim() not in (1, 3) or coefficients.size(0) == 0:
        raise ValueError(f"coefficients: expected [K + 1] or [K + 1, F, C], got {list(coefficients.shape)}")
    if coefficients.is_complex() and polynomial != "cayley":
        raise TypeError(f"coefficients: a {polynomial} filter takes real ones, got {coefficients.dtype}")


def _terms(apply: Callable[[Tensor], Tensor], x: Tensor, count: int, polynomial: str) -> list[Tensor]:
    """[p_0(A)x, …, p_K(A)x], given the product with A (with C for Cayley)."""
    found = terms(apply, x, count - 1, polynomial)
    return [x, *(2 * term for term in found[1:])] if polynomial == "cayley" else found


def _adjacency_product(graph: Graph) -> Callable[[Tensor], Tensor]:
    weight = graph.normalization(torch.float64)

    def product(x: Tensor) -> Tensor:
        scale = weight.view(-1, *[1] * (x.dim() - 1))
        return torch.zeros_like(x).index_add(0, graph.dst, scale * x[graph.src])

    return product


def _cayley_product(graph: Graph, zoom: float) -> Callable[[Tensor], Tensor]:
    if zoom <= 0:
        raise ValueError(f"zoom: expected a positive number, got {zoom}")
    n = graph.num_nodes
    identity = scipy.sparse.identity(n, dtype=np.complex128, format="csc")
    laplacian = scipy.sparse.csc_matrix(zoom * (identity - adjacency_matrix(graph, normalized=True)))
    solver = scipy.sparse.linalg.splu(laplacian + 1j * identity) if n else None

    def product(x: Tensor) -> Tensor:
        if solver is None:
            return x
        right = (laplacian - 1j * identity) @ x.detach().cpu().numpy()
        return torch.from_numpy(solver.solve(right)).to(x.device)

    return product
