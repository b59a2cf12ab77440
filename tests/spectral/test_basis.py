"""The Fourier basis: eigenpairs, determinism, degenerate and disconnected graphs, solvers, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import barabasi_albert_graph, get_laplacian, to_dense_adj

from mimogc import Graph
from mimogc.spectral import fourier_basis
from mimogc.spectral.basis import FourierBasis

CYCLE = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])


def undirected(pairs, num_nodes):
    return Graph.from_edge_index(torch.tensor(pairs).view(-1, 2).T, num_nodes).to_undirected()


def dense_laplacian(graph, normalization):
    index, weight = get_laplacian(
        graph.edge_index, normalization=normalization, dtype=torch.float64, num_nodes=graph.num_nodes
    )
    return to_dense_adj(index, edge_attr=weight, max_num_nodes=graph.num_nodes)[0]


@st.composite
def graphs(draw, max_nodes=12):
    """Undirected graphs with isolated nodes, self-loops, duplicate edges, several components."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * n))
    both = [pair for a, b in pairs for pair in ([(a, b), (b, a)] if a != b else [(a, a)])]
    edge_index = torch.tensor(both, dtype=torch.long).view(-1, 2).T
    return Graph.from_edge_index(edge_index, n)


def rotated(basis, graph, seed):
    """Another eigenbasis of the same graph: random signs, random rotations inside each eigenspace."""
    rng = np.random.default_rng(seed)
    values, vectors = basis.values.numpy().copy(), basis.vectors.numpy().copy()
    for value in np.unique(values):
        columns = np.flatnonzero(values == value)
        q, _ = np.linalg.qr(rng.standard_normal((len(columns),) * 2))
        vectors[:, columns] = vectors[:, columns] @ q
    return values, vectors


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_eigenpairs_of_any_undirected_graph(graph):
    n = graph.num_nodes
    adjacency = torch.zeros(n, n, dtype=torch.float64).index_put(
        (graph.dst, graph.src), torch.ones(graph.num_edges, dtype=torch.float64), accumulate=True
    )
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), torch.zeros(()).double())
    for laplacian, matrix in {
        "normalized": torch.eye(n).double() - scale[:, None] * adjacency * scale,
        "combinatorial": torch.diag(degree) - adjacency,
    }.items():
        basis = fourier_basis(graph, laplacian=laplacian)
        u, values = basis.vectors, basis.values
        assert u.dtype == values.dtype == torch.float64
        torch.testing.assert_close(u.T @ u, torch.eye(n).double(), atol=1e-12, rtol=0)
        torch.testing.assert_close(u @ torch.diag(values) @ u.T, matrix, atol=1e-11, rtol=0)
        assert bool((values.diff() >= 0).all())
        assert bool((values >= 0).all())


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 5))
def test_the_basis_does_not_depend_on_what_the_solver_returned(graph, seed):
    from mimogc.spectral.basis import _canonical

    basis = fourier_basis(graph)
    again = _canonical(*rotated(basis, graph, seed))
    torch.testing.assert_close(torch.from_numpy(again[1]), basis.vectors, atol=1e-7, rtol=0)


@pytest.mark.parametrize("normalization", ["sym", None])
def test_same_laplacian_as_pyg(normalization):
    graph = Graph.from_edge_index(barabasi_albert_graph(30, 3), 30).to_undirected()
    basis = fourier_basis(graph, laplacian="normalized" if normalization else "combinatorial")
    rebuilt = basis.vectors @ torch.diag(basis.values) @ basis.vectors.T
    torch.testing.assert_close(rebuilt, dense_laplacian(graph, normalization), atol=1e-12, rtol=0)


def test_equal_eigenvalues_are_exactly_equal():
    values = fourier_basis(Graph.from_edge_index(CYCLE).to_undirected()).values
    assert len(torch.unique(values)) == 4  # a cycle of 6: 0, ½ twice, 3/2 twice, 2
    torch.testing.assert_close(torch.unique(values), torch.tensor([0, 0.5, 1.5, 2]).double())


def test_largest_entry_is_positive():
    vectors = fourier_basis(undirected([(0, 1), (1, 2), (2, 3), (1, 3)], 4)).vectors
    assert bool((vectors.amax(0) >= vectors.abs().amax(0) * (1 - 1e-5)).all())


def test_null_vectors_of_a_disconnected_graph_are_its_components():
    graph = undirected([(0, 1), (1, 2), (3, 4), (4, 5), (5, 3), (6, 7)], 8)
    basis = fourier_basis(graph)
    null = basis.vectors[:, basis.values == 0]
    assert null.size(1) == 3
    assert (null.abs() > 1e-12).sum(0).tolist() in ([3, 3, 2], [3, 2, 3], [2, 3, 3])
    assert (null.abs() > 1e-12).sum(1).tolist() == [1] * 8  # each node in one component


def test_an_isolated_node_has_normalized_eigenvalue_one():
    basis = fourier_basis(undirected([(0, 1)], 3))
    assert basis.values.tolist() == pytest.approx([0, 1, 2])
    assert basis.vectors[:, 1].tolist() == [0, 0, 1]
    assert fourier_basis(undirected([(0, 1)], 3), laplacian="combinatorial").values.tolist() == [0, 0, 2]


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize("which", ["smallest", "largest"])
@pytest.mark.parametrize(("copies", "seed"), [(1, 0), (3, 0), (3, 17), (3, 21), (3, 32)])
def test_sparse_solver_agrees_with_dense(laplacian, which, copies, seed):
    n = 600 // copies
    torch.manual_seed(seed)  # Lanczos' method alone misses copies for some seeds, 17 and 32 among them
    one = barabasi_albert_graph(n, 3)
    # Copies of one graph: every eigenvalue comes several times, and the graph is disconnected.
    graph = Graph.from_edge_index(torch.cat([one + n * c for c in range(copies)], 1), n * copies).to_undirected()
    full, part = fourier_basis(graph, laplacian=laplacian), fourier_basis(graph, 9, which, laplacian)
    chosen = slice(None, 9) if which == "smallest" else slice(-9, None)
    torch.testing.assert_close(part.values, full.values[chosen], atol=1e-9, rtol=0)
    assert part.vectors.shape == (n * copies, 9)
    assert not part.complete
    projector = full.vectors[:, chosen] @ full.vectors[:, chosen].T
    torch.testing.assert_close(part.vectors @ part.vectors.T, projector, atol=1e-6, rtol=0)
    torch.testing.assert_close(fourier_basis(graph, 9, which, laplacian).vectors, part.vectors, atol=0, rtol=0)


@pytest.mark.parametrize("which", ["smallest", "largest"])
def test_sparse_solver_on_a_long_path(which):
    n = 3000  # eigenvalues 2 − 2cos(πk/n), as close as 1e-6
    path = Graph.from_edge_index(torch.stack([torch.arange(n - 1), torch.arange(1, n)]), n).to_undirected()
    numbers = torch.arange(6 if which == "smallest" else n).double()[-6:]
    expected = 2 - 2 * torch.cos(torch.pi * numbers / n)
    basis = fourier_basis(path, 6, which, "combinatorial")
    torch.testing.assert_close(basis.values, expected, atol=1e-12, rtol=1e-7)
    torch.testing.assert_close(basis.vectors.T @ basis.vectors, torch.eye(6).double(), atol=1e-10, rtol=0)


def test_k_on_a_small_graph_is_a_part_of_the_dense_basis():
    graph = undirected([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
    full = fourier_basis(graph)
    assert torch.equal(fourier_basis(graph, 2).values, full.values[:2])
    assert torch.equal(fourier_basis(graph, 2, "largest").vectors, full.vectors[:, 3:])
    assert torch.equal(fourier_basis(graph, 99).vectors, full.vectors)


def test_empty_graphs():
    none = fourier_basis(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0))
    assert none.vectors.shape == (0, 0)
    edgeless = fourier_basis(Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 3))
    assert edgeless.values.tolist() == [1, 1, 1]
    assert torch.equal(edgeless.vectors, torch.eye(3).double())


def test_a_directed_graph_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"graph: .*directed.*to_undirected\(\)"):
        fourier_basis(Graph.from_edge_index(CYCLE))


def test_a_basis_that_is_too_big_is_refused_with_its_size():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 100_000)
    with pytest.raises(ValueError, match=r"100,000 nodes takes about 298\.0 GiB.*k="):
        fourier_basis(graph)
    with pytest.raises(ValueError, match="memory_limit"):
        fourier_basis(undirected([(0, 1)], 2), memory_limit=10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k: expected at least 1"),
        ({"which": "middle"}, "which: expected one of smallest, largest, got 'middle'"),
        ({"laplacian": "random-walk"}, "laplacian: expected one of normalized, combinatorial"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        fourier_basis(undirected([(0, 1)], 2), **arguments)


def test_wrong_graph_and_wrong_signals():
    with pytest.raises(TypeError, match=r"graph: expected a mimogc\.Graph, got Tensor"):
        fourier_basis(CYCLE)
    basis = fourier_basis(undirected([(0, 1)], 2))
    with pytest.raises(ValueError, match=r"x: expected 2 rows, one per node, got shape \[3\]"):
        basis.transform(torch.ones(3))
    with pytest.raises(ValueError, match="x_hat: expected 2 rows"):
        basis.inverse(torch.ones(3))
    with pytest.raises(ValueError, match="basis: expected the basis of the normalized"):
        _ = FourierBasis(basis.values, basis.vectors, "combinatorial").adjacency_values
