"""Polynomial filters: sparse and spectral agree, the GCN is one of them, and theta says which MIMO-GC they are."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.spectral import (
    fourier_basis,
    gcn_filter,
    mimo_convolution,
    polynomial_filter,
    polynomial_response,
    siso_convolution,
    theta_from_gcn,
    theta_from_polynomial,
)

POLYNOMIALS = ["monomial", "chebyshev", "cayley"]


def random_graph(n, p, seed):
    torch.manual_seed(seed)
    return Graph.from_edge_index(erdos_renyi_graph(n, p), n)


def random_coefficients(polynomial, *shape):
    dtype = torch.complex128 if polynomial == "cayley" else torch.float64
    return torch.randn(*shape, dtype=dtype)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(POLYNOMIALS),
    st.integers(1, 10),
    st.floats(0, 1),
    st.integers(0, 6),
    st.booleans(),
    st.integers(0, 99),
)
def test_sparse_and_spectral_form_agree(polynomial, n, p, degree, loops, seed):
    graph = random_graph(n, p, seed)
    graph = graph.with_self_loops() if loops else graph
    basis = fourier_basis(graph)
    one, x = random_coefficients(polynomial, degree + 1), torch.randn(n).double()
    siso = siso_convolution(theta_from_polynomial(one, basis, polynomial, 0.7), x, basis)
    torch.testing.assert_close(polynomial_filter(one, x, graph, polynomial, 0.7), siso, atol=1e-9, rtol=1e-9)
    many, x = random_coefficients(polynomial, degree + 1, 3, 2), torch.randn(n, 3).double()
    mimo = mimo_convolution(theta_from_polynomial(many, basis, polynomial, 0.7), x, basis)
    torch.testing.assert_close(polynomial_filter(many, x, graph, polynomial, 0.7), mimo, atol=1e-9, rtol=1e-9)


def test_responses_are_the_polynomials():
    values = torch.linspace(-1, 1, 7).double()
    w = torch.tensor([0.5, -1.0, 2.0]).double()
    torch.testing.assert_close(polynomial_response(w, values), 0.5 - values + 2 * values**2)
    chebyshev = 0.5 - values + 2 * torch.cos(2 * torch.arccos(values))
    torch.testing.assert_close(polynomial_response(w, values, "chebyshev"), chebyshev)
    c = torch.tensor([0.5, 1 - 2j], dtype=torch.complex128)
    laplacian = 3 * (1 - values)
    cayley = 0.5 + 2 * ((1 - 2j) * (laplacian - 1j) / (laplacian + 1j)).real
    torch.testing.assert_close(polynomial_response(c, values, "cayley", 3), cayley)


def test_the_gcn_is_a_mimo_gc():
    graph = random_graph(9, 0.4, 0)
    basis = fourier_basis(graph)
    v, x = torch.randn(3, 2).double(), torch.randn(9, 3).double()
    torch.testing.assert_close(mimo_convolution(theta_from_gcn(v, basis), x, basis), gcn_filter(v, x, graph))
    scalar = siso_convolution(theta_from_gcn(0.3, basis), x[:, 0], basis)
    torch.testing.assert_close(scalar, gcn_filter(0.3, x[:, 0], graph))
    theta_hat = basis.transform(theta_from_gcn(v, basis))
    torch.testing.assert_close(theta_hat, basis.adjacency_values.view(-1, 1, 1) * v.T)


def test_types_and_gradients():
    graph = random_graph(6, 0.5, 1)
    x, v = torch.randn(6, 2), torch.randn(3, 2, 2)
    for polynomial in POLYNOMIALS:
        assert polynomial_filter(v, x, graph, polynomial).dtype == torch.float32
    assert gcn_filter(v[0], x, graph).dtype == torch.float32
    inputs = (v.double().requires_grad_(), x.double().requires_grad_())
    assert torch.autograd.gradcheck(lambda v, x: polynomial_filter(v, x, graph, "chebyshev"), inputs)
    with pytest.raises(ValueError, match=r"x: a Cayley filter is solved outside.*PolynomialConv"):
        polynomial_filter(v, x.requires_grad_(), graph, "cayley")


def test_no_nodes():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    for polynomial in POLYNOMIALS:
        assert polynomial_filter(torch.randn(3, 2, 4), torch.empty(0, 2), graph, polynomial).shape == (0, 4)


def test_wrong_arguments():
    graph = random_graph(5, 0.5, 2)
    x, v = torch.randn(5, 2), torch.randn(3, 2, 2)
    with pytest.raises(ValueError, match="polynomial: expected one of monomial, chebyshev, cayley"):
        polynomial_filter(v, x, graph, "legendre")
    with pytest.raises(ValueError, match=r"coefficients: expected \[K \+ 1\] or"):
        polynomial_filter(v[0], x, graph)
    with pytest.raises(ValueError, match=r"x: expected shape \[5, 2\] for these coefficients, got \[5, 3\]"):
        polynomial_filter(v, torch.randn(5, 3), graph)
    with pytest.raises(TypeError, match="a monomial filter takes real ones"):
        polynomial_filter(v.to(torch.complex64), x, graph)
    with pytest.raises(ValueError, match="zoom: expected a positive number"):
        polynomial_filter(v, x, graph, "cayley", zoom=0)
    with pytest.raises(ValueError, match="weight: expected"):
        gcn_filter(torch.randn(3, 2), x, graph)
    with pytest.raises(ValueError, match=r"weight: expected a scalar or \[F, C\]"):
        theta_from_gcn(torch.randn(3), fourier_basis(graph))
    with pytest.raises(ValueError, match="basis: expected the basis of the normalized Laplacian"):
        theta_from_gcn(0.5, fourier_basis(graph, laplacian="combinatorial"))
