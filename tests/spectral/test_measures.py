"""Over-smoothing measures: known values, batches, types, and that they move when they should."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.spectral import dirichlet_energy, effective_rank, fourier_basis, mean_average_distance, rank_one_distance

PATH = Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3).to_undirected()


def random_graph(n, p, seed):
    torch.manual_seed(seed)
    return Graph.from_edge_index(erdos_renyi_graph(n, p), n)


def test_effective_rank_of_known_spectra():
    assert effective_rank(torch.eye(4)).item() == pytest.approx(4)
    assert effective_rank(torch.ones(5, 3)).item() == pytest.approx(1)
    assert effective_rank(torch.zeros(5, 3)).item() == 0
    p = torch.tensor([3 / 4, 1 / 4])
    expected = math.exp(-(p * p.log()).sum())
    assert effective_rank(torch.diag(torch.tensor([3.0, 1.0, 0.0]))).item() == pytest.approx(expected)


def test_rank_one_distance_of_known_spectra():
    assert rank_one_distance(torch.ones(5, 3)).item() == pytest.approx(0, abs=1e-12)
    assert rank_one_distance(torch.diag(torch.tensor([3.0, 4.0]))).item() == pytest.approx(3 / 5)
    assert rank_one_distance(torch.zeros(5, 3)).item() == 0
    x = torch.randn(6, 4).double()
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    nearest = s[0] * torch.outer(u[:, 0], v[0])
    assert rank_one_distance(x).item() == pytest.approx(float((x - nearest).norm() / x.norm()))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 10), st.floats(0, 1), st.integers(0, 99))
def test_dirichlet_energy_is_the_quadratic_form(n, p, seed):
    graph = random_graph(n, p, seed).with_self_loops()  # no isolated nodes
    x = torch.randn(n, 3).double()
    for laplacian in ("normalized", "combinatorial"):
        basis = fourier_basis(graph, laplacian=laplacian)
        expected = (basis.values.view(-1, 1) * basis.transform(x).square()).sum()
        torch.testing.assert_close(dirichlet_energy(x, graph, laplacian), expected, atol=1e-10, rtol=1e-10)


def test_dirichlet_energy_vanishes_on_smooth_signals():
    smooth = PATH.in_degree.double().sqrt().view(-1, 1)
    assert dirichlet_energy(smooth, PATH).item() == pytest.approx(0, abs=1e-15)
    assert dirichlet_energy(torch.ones(3, 2), PATH, "combinatorial").item() == 0
    assert dirichlet_energy(torch.ones(3, 2), PATH).item() > 0.1
    assert dirichlet_energy(torch.ones(2, 2), Graph.from_edge_index(torch.empty(2, 0).long(), 2)).item() == 0


def test_mean_average_distance_of_known_features():
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    # distances: 0–1: 1, 0–2: 2, 1–2: 1
    assert mean_average_distance(x).item() == pytest.approx((3 / 2 + 1 + 3 / 2) / 3)
    assert mean_average_distance(x, PATH).item() == pytest.approx(1)
    assert mean_average_distance(x, PATH.with_self_loops()).item() == pytest.approx(1)
    assert mean_average_distance(torch.ones(4, 2)).item() == pytest.approx(0, abs=1e-15)
    assert mean_average_distance(torch.ones(1, 2)).item() == 0
    assert mean_average_distance(x, Graph.from_edge_index(torch.empty(2, 0).long(), 3)).item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_are_one_by_one(dtype):
    x = torch.randn(2, 4, 3, 5, dtype=dtype)
    measures = [
        effective_rank,
        rank_one_distance,
        mean_average_distance,
        lambda x: dirichlet_energy(x, PATH),
        lambda x: mean_average_distance(x, PATH),
    ]
    for measure in measures:
        out = measure(x)
        assert out.shape == (2, 4)
        assert out.dtype == torch.float64
        torch.testing.assert_close(out[1, 2], measure(x[1, 2]))


def test_no_nodes():
    x = torch.empty(0, 3)
    none = Graph.from_edge_index(torch.empty(2, 0).long(), 0)
    for value in (effective_rank(x), rank_one_distance(x), dirichlet_energy(x, none), mean_average_distance(x)):
        assert value.item() == 0


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"x: expected node features \[N, C\].*got shape \[3\]"):
        effective_rank(torch.ones(3))
    with pytest.raises(TypeError, match=r"x: expected floating-point features, got torch\.int64"):
        rank_one_distance(torch.ones(3, 2).long())
    with pytest.raises(ValueError, match=r"x: expected 3 nodes, got shape \[4, 2\]"):
        dirichlet_energy(torch.ones(4, 2), PATH)
    with pytest.raises(ValueError, match="x: expected 3 nodes"):
        mean_average_distance(torch.ones(4, 2), PATH)
    with pytest.raises(ValueError, match="laplacian: expected one of normalized, combinatorial"):
        dirichlet_energy(torch.ones(3, 2), PATH, "signless")
