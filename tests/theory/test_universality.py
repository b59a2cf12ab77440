"""Proposition 1: the constructed filter reaches any target for any numbers of channels; the paper's does not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.spectral import fourier_basis, mimo_convolution
from mimogc.theory import universal_filter


def random_basis(n, p, seed):
    torch.manual_seed(seed)
    return fourier_basis(Graph.from_edge_index(erdos_renyi_graph(n, p), n))


def filter_of_the_papers_proof(x, y, basis):
    """W^(k)_mn = b_n / (c·a_m), as the proof of Proposition 1 writes it."""
    a, b = basis.transform(x), basis.transform(y)
    return basis.inverse(b.unsqueeze(2) / (y.size(1) * a.unsqueeze(1)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10), st.floats(0, 1), st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_reaches_any_target(n, p, f, c, seed):
    basis = random_basis(n, p, seed)
    x, y = torch.randn(n, f).double(), torch.randn(n, c).double()
    theta, absent = universal_filter(x, y, basis)
    assert theta.shape == (n, c, f)
    assert absent.numel() == 0
    torch.testing.assert_close(mimo_convolution(theta, x, basis), y, atol=1e-9, rtol=1e-9)


def test_the_papers_constant_is_right_only_for_as_many_outputs_as_inputs():
    basis = random_basis(8, 0.4, 0)
    x = torch.randn(8, 3).double()
    for c in (1, 2, 3, 5):
        y = torch.randn(8, c).double()
        out = mimo_convolution(filter_of_the_papers_proof(x, y, basis), x, basis)
        torch.testing.assert_close(out, y * 3 / c, atol=1e-9, rtol=1e-9)  # wrong by the factor d/c
        ours = mimo_convolution(universal_filter(x, y, basis).theta, x, basis)
        torch.testing.assert_close(ours, y, atol=1e-9, rtol=1e-9)


def test_it_has_the_smallest_norm():
    basis = random_basis(7, 0.5, 1)
    x, y = torch.randn(7, 4).double(), torch.randn(7, 2).double()
    theta = universal_filter(x, y, basis).theta
    other = theta_plus = theta + basis.inverse(
        torch.stack([torch.randn(2, 4).double() @ _orthogonal_to(a) for a in basis.transform(x)])
    )
    torch.testing.assert_close(mimo_convolution(theta_plus, x, basis), y, atol=1e-9, rtol=1e-9)
    assert theta.norm() < other.norm()
    least_squares = torch.linalg.lstsq(basis.transform(x).unsqueeze(1), basis.transform(y).unsqueeze(1)).solution
    torch.testing.assert_close(basis.transform(theta), least_squares.transpose(1, 2), atol=1e-9, rtol=1e-9)


def _orthogonal_to(a):
    return torch.eye(len(a)).double() - torch.outer(a, a) / a.square().sum()


def test_entries_may_be_zero_as_long_as_the_row_is_not():
    basis = random_basis(6, 0.5, 2)
    x = basis.inverse(torch.tensor([[1.0, 0.0], [0.0, 2.0]] * 3).double())
    y = torch.randn(6, 3).double()
    theta, absent = universal_filter(x, y, basis)
    assert absent.numel() == 0
    torch.testing.assert_close(mimo_convolution(theta, x, basis), y, atol=1e-9, rtol=1e-9)
    assert not torch.isfinite(filter_of_the_papers_proof(x, y, basis)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_absent_components_are_reported_and_left_out(dtype):
    basis = random_basis(6, 0.6, 3)
    x_hat, y_hat = torch.randn(6, 2).double(), torch.randn(6, 3).double()
    x_hat[[1, 4]] = 0
    x, y = basis.inverse(x_hat).to(dtype), basis.inverse(y_hat).to(dtype)
    theta, absent = universal_filter(x, y, basis)
    assert absent.tolist() == [1, 4]
    assert theta.dtype == torch.float64
    y_hat[[1, 4]] = 0  # all that can be reached
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    reached = mimo_convolution(theta, x, basis).double()
    torch.testing.assert_close(reached, basis.inverse(y_hat), atol=tolerance, rtol=tolerance)


def test_zero_features_and_no_nodes():
    basis = random_basis(4, 0.6, 4)
    theta, absent = universal_filter(torch.zeros(4, 2), torch.randn(4, 2), basis)
    assert absent.tolist() == [0, 1, 2, 3]
    assert not theta.any()
    none = fourier_basis(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0))
    assert universal_filter(torch.empty(0, 2), torch.empty(0, 3), none).theta.shape == (0, 3, 2)


def test_wrong_arguments():
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4).to_undirected()
    x = torch.randn(4, 2)
    with pytest.raises(ValueError, match=r"y: expected \[N, C\] with the nodes of x.*y \[3, 2\]"):
        universal_filter(x, x[:3], fourier_basis(graph))
    with pytest.raises(ValueError, match="basis: expected a complete basis of 4 components, got 2"):
        universal_filter(x, x, fourier_basis(graph, 2))
