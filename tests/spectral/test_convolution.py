"""All forms of the MIMO graph convolution are one operator, and it contains the one-channel convolution."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.spectral import (
    fourier_basis,
    mimo_channel_pairs,
    mimo_convolution,
    mimo_graphs,
    mimo_kronecker,
    mimo_pairwise,
    pairwise_maps,
    siso_convolution,
)

FORMS = [mimo_graphs, mimo_pairwise, mimo_channel_pairs, mimo_kronecker]


def random_graph(n, p, seed):
    torch.manual_seed(seed)
    return Graph.from_edge_index(erdos_renyi_graph(n, p), n).to_undirected()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.floats(0, 1), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_all_forms_are_equal(n, p, f, c, seed):
    basis = fourier_basis(random_graph(n, p, seed))
    theta, x = torch.randn(n, c, f).double(), torch.randn(n, f).double()
    expected = mimo_convolution(theta, x, basis)
    assert expected.shape == (n, c)
    for form in FORMS:
        torch.testing.assert_close(form(theta, x, basis), expected, atol=1e-10, rtol=0)
    theta_hat = basis.transform(theta)
    for form in [mimo_convolution, *FORMS]:
        torch.testing.assert_close(form(None, x, basis, theta_hat=theta_hat), expected, atol=1e-10, rtol=0)


def test_it_is_the_convolution_theorem():
    basis = fourier_basis(random_graph(8, 0.4, 0))
    theta, x = torch.randn(8, 3, 2).double(), torch.randn(8, 2).double()
    left = basis.transform(mimo_convolution(theta, x, basis))  # F(Θ * X) = F(Θ) ⊙ F(X)
    right = torch.stack([m @ v for m, v in zip(basis.transform(theta), basis.transform(x), strict=True)])
    torch.testing.assert_close(left, right, atol=1e-12, rtol=0)


def test_one_channel_is_the_siso_convolution_and_it_commutes():
    basis = fourier_basis(random_graph(8, 0.4, 1))
    theta, x = torch.randn(2, 8).double()
    expected = basis.vectors @ torch.diag(basis.vectors.T @ theta) @ basis.vectors.T @ x
    torch.testing.assert_close(siso_convolution(theta, x, basis), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(siso_convolution(x, theta, basis), expected, atol=1e-12, rtol=0)
    mimo = mimo_convolution(theta.view(8, 1, 1), x.view(8, 1), basis)
    torch.testing.assert_close(mimo[:, 0], expected, atol=1e-12, rtol=0)


def test_pairwise_maps_are_symmetric_and_distinct():
    edges = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 5, 3]])  # connected, without a symmetry
    basis = fourier_basis(Graph.from_edge_index(edges, 6).to_undirected())
    maps = pairwise_maps(torch.randn(6, 3, 2).double(), basis)
    torch.testing.assert_close(maps, maps.transpose(0, 1), atol=1e-12, rtol=0)
    assert len(torch.unique(maps.flatten(0, 1).flatten(1).round(decimals=9), dim=0)) == 21  # pairs i ≤ j


def test_only_the_transformed_filter_is_independent_of_signs():
    basis = fourier_basis(random_graph(7, 0.5, 3))
    flipped = type(basis)(basis.values, -basis.vectors)
    theta_hat, x = torch.randn(7, 2, 2).double(), torch.randn(7, 2).double()
    one = mimo_convolution(None, x, basis, theta_hat=theta_hat)
    torch.testing.assert_close(mimo_convolution(None, x, flipped, theta_hat=theta_hat), one)
    torch.testing.assert_close(mimo_convolution(theta_hat, x, flipped), -mimo_convolution(theta_hat, x, basis))


def test_an_incomplete_basis_convolves_the_components_it_has():
    graph = random_graph(9, 0.4, 4)
    full, part = fourier_basis(graph), fourier_basis(graph, 3)
    theta_hat, x = torch.randn(9, 2, 2).double(), torch.randn(9, 2).double()
    low = theta_hat.clone()
    low[3:] = 0
    expected = mimo_convolution(None, x, full, theta_hat=low)
    for form in [mimo_convolution, *FORMS]:
        torch.testing.assert_close(form(None, x, part, theta_hat=theta_hat[:3]), expected, atol=1e-10, rtol=0)


def test_types_and_gradients():
    basis = fourier_basis(random_graph(6, 0.5, 5))
    theta, x = torch.randn(6, 2, 3), torch.randn(6, 3)
    for form in [mimo_convolution, *FORMS]:
        out = form(theta, x, basis)
        assert out.dtype == torch.float32
        torch.testing.assert_close(out.double(), form(theta.double(), x.double(), basis), atol=1e-5, rtol=1e-5)
    assert siso_convolution(theta[:, 0, 0], x[:, 0], basis).dtype == torch.float32
    inputs = (theta.double().requires_grad_(), x.double().requires_grad_())
    assert torch.autograd.gradcheck(lambda t, s: mimo_convolution(t, s, basis), inputs)


def test_no_nodes():
    basis = fourier_basis(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0))
    assert mimo_convolution(torch.empty(0, 3, 2), torch.empty(0, 2), basis).shape == (0, 3)
    for form in FORMS:
        assert form(torch.empty(0, 3, 2), torch.empty(0, 2), basis).shape == (0, 3)


def test_wrong_shapes():
    basis = fourier_basis(random_graph(5, 0.5, 6))
    theta, x = torch.randn(5, 2, 3), torch.randn(5, 3)
    with pytest.raises(ValueError, match=r"theta: expected shape \[5, any, 3\], got \[4, 2, 3\]"):
        mimo_convolution(theta[:4], x, basis)
    with pytest.raises(ValueError, match="theta: expected 3 input channels, like x, got 4"):
        mimo_pairwise(torch.randn(5, 2, 4), x, basis)
    with pytest.raises(ValueError, match="theta: expected either theta or theta_hat, got both"):
        mimo_convolution(theta, x, basis, theta_hat=theta)
    with pytest.raises(ValueError, match="got none"):
        mimo_convolution(None, x, basis)
    with pytest.raises(ValueError, match=r"x: expected shape \[N, F\], got \[5\]"):
        mimo_convolution(theta, x[:, 0], basis)
    with pytest.raises(ValueError, match=r"x: expected one channel of shape \[N\]"):
        siso_convolution(theta[:, 0, 0], x, basis)
