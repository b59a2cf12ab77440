"""A reordered graph is the same graph: features go there, outputs come back, and neighbours are near each other."""

import pytest
import torch

from mimogc import Graph
from mimogc.distributed import PartitionedGraph
from mimogc.nn import LMGConv, NodeClassifier

NODES = 60


def edges(undirected: bool) -> torch.Tensor:
    found = torch.randint(0, NODES, (2, 300))
    return torch.cat([found, found.flip(0)], dim=1) if undirected else found


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("method", ["lmgc", "gcn", "gatv2", "gin"])
def test_a_model_gives_the_same(undirected: bool, loops: bool, method: str) -> None:
    graph = Graph.from_edge_index(edges(undirected), NODES, add_self_loops=loops)
    ordered, permutation = graph.reordered()
    model = NodeClassifier(5, 8, 3, method, gain=1.0).double()
    x = torch.randn(NODES, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(NODES, 3, dtype=torch.float64)
    plain, there = model(x, graph), permutation.back(model(permutation.apply(x), ordered))
    torch.testing.assert_close(there, plain)
    (expected,), (found,) = (torch.autograd.grad((out * weight).sum(), x) for out in (plain, there))
    torch.testing.assert_close(found, expected)
    assert not torch.equal(permutation.order, torch.arange(NODES))


def test_what_belongs_to_edges_goes_with_them() -> None:
    given = edges(False)
    attributes = torch.randn(given.size(1), 3)
    graph = Graph.from_edge_index(given, NODES, attributes)
    for each in (graph, graph.with_self_loops(), graph.with_identity()):
        ordered, permutation = each.reordered()
        kept = ordered.perm >= 0
        assert torch.equal(permutation.order[ordered.edge_index][:, kept], given[:, ordered.perm[kept]])
        assert ordered.edge_attr is not None
        torch.testing.assert_close(ordered.edge_attr[kept], attributes[ordered.perm[kept]])
        assert ordered.looped == each.looped
        if each.looped or each.extra is not None:
            assert torch.equal(ordered.identity, (ordered.src == ordered.dst) & ~kept)
    layer, x = LMGConv(4, 4, edge_dim=3), torch.randn(NODES, 4)
    ordered, permutation = graph.reordered()
    torch.testing.assert_close(permutation.back(layer(permutation.apply(x), ordered)), layer(x, graph))


def test_neighbours_are_near() -> None:
    ring = torch.randperm(NODES)
    graph = Graph.from_edge_index(torch.stack([ring, ring.roll(1)])).to_undirected()
    ordered, _ = graph.reordered()
    assert int((ordered.src - ordered.dst).abs().max()) <= 2 < int((graph.src - graph.dst).abs().max())


def test_what_has_not_one_set_of_nodes_is_refused() -> None:
    part = PartitionedGraph.from_edge_index(edges(False), torch.tensor([0, NODES]))
    for graph in (Graph.from_edge_index(torch.tensor([[0], [0]]), (3, 2)), part):
        with pytest.raises(ValueError, match="graph: expected one set of nodes"):
            graph.reordered()


def test_a_graph_without_edges() -> None:
    ordered, permutation = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 4).reordered()
    assert (ordered.num_nodes, ordered.num_edges) == (4, 0)
    assert sorted(permutation.order.tolist()) == [0, 1, 2, 3]


def test_rows_of_another_number_of_nodes_are_refused() -> None:
    _, permutation = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]])).reordered()
    for rows in (torch.zeros(2, 4), torch.zeros(4, 4), torch.tensor(1.0)):
        for there in (permutation.apply, permutation.back):
            with pytest.raises(ValueError, match=r"rows: expected one per node \(3\), got"):
                there(rows)
