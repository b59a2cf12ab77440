"""Graph: the two sorted orders, self-loops, normalisation, and what it refuses."""

import pytest
import torch
from hypothesis import given, settings
from torch_geometric.edge_index import EdgeIndex
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops, to_undirected

from graphs import AWKWARD, awkward, edge_lists, random_edges
from mimogc import Graph
from mimogc._sorting import AtRows, SumOfRows, sort_edges, sort_reference
from mimogc.nn import LMGConv
from mimogc.nn.coefficients.base import normalization


@pytest.mark.parametrize("loops", [False, True])
@settings(deadline=None)
@given(edge_lists())
def test_sorting_equals_its_specification(loops, case):
    nodes, (src, dst) = case
    for found, expected in zip(
        sort_edges(src, dst, nodes, nodes, loops), sort_reference(src, dst, nodes, nodes, loops), strict=True
    ):
        assert found.dtype == torch.int32
        assert torch.equal(found, expected)


@given(edge_lists())
def test_edges_survive_sorting(case):
    nodes, edge_index = case
    graph = Graph.from_edge_index(edge_index, nodes)
    assert torch.equal(graph.edge_index, edge_index[:, graph.perm])
    assert torch.equal(graph.perm.sort().values, torch.arange(edge_index.size(1)))
    key = graph.dst * max(nodes, 1) + graph.src
    assert torch.equal(key, key.sort().values)
    # the order by source lists the same edges
    slot = graph.slot.long()
    assert torch.equal(graph.targets.long(), graph.dst[slot])
    assert torch.equal(graph.src[slot], torch.repeat_interleave(torch.arange(nodes), graph.out_degree))
    assert torch.equal(graph.in_degree, torch.bincount(edge_index[1], minlength=nodes))


@given(edge_lists())
def test_self_loops_are_those_of_pyg(case):
    nodes, edge_index = case
    graph = Graph.from_edge_index(edge_index, nodes, add_self_loops=True)
    expected, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=nodes)
    assert _as_multiset(graph.edge_index) == _as_multiset(expected)
    assert (graph.perm[graph.src == graph.dst] == -1).all()
    later = Graph.from_edge_index(edge_index, nodes).with_self_loops()
    assert torch.equal(later.edge_index, graph.edge_index)
    assert torch.equal(later.perm, graph.perm)
    assert later.with_self_loops() is later


def _as_multiset(edge_index):
    return sorted(map(tuple, edge_index.t().tolist()))


def test_with_self_loops_is_cached_and_leaves_the_graph_alone():
    graph = Graph.from_edge_index(random_edges(6, 12), 6)
    before = graph.edge_index.clone()
    assert graph.with_self_loops() is graph.with_self_loops()
    assert torch.equal(graph.edge_index, before)
    with pytest.raises(AttributeError):
        graph.num_src = 3


@pytest.mark.parametrize("name", AWKWARD)
def test_identity_loops_are_beside_the_graph(name):
    nodes, edge_index = awkward(name)
    graph = Graph.from_edge_index(edge_index, nodes)
    wide = graph.with_identity()
    assert wide.num_edges == graph.num_edges + nodes
    assert int(wide.identity.sum()) == nodes
    assert torch.equal(wide.edge_index[:, ~wide.identity], graph.edge_index)
    assert torch.equal(wide.perm[~wide.identity], graph.perm)
    weights = wide.normalization(torch.float64)
    assert (weights[wide.identity] == 0).all()
    assert torch.equal(weights[~wide.identity], graph.normalization(torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(case=edge_lists())
def test_normalization_is_gcn_norm(dtype, case):
    nodes, edge_index = case
    graph = Graph.from_edge_index(edge_index, nodes)
    _, expected = gcn_norm(edge_index, None, nodes, add_self_loops=False, dtype=dtype)
    torch.testing.assert_close(graph.normalization(dtype), expected[graph.perm])


def test_attributes_follow_their_edges_and_loops_get_the_mean():
    edge_index = torch.tensor([[0, 1, 2, 2, 0], [1, 1, 1, 2, 1]])
    attributes = torch.tensor([[1.0], [100.0], [2.0], [50.0], [6.0]])
    plain = Graph.from_edge_index(edge_index, 3, attributes)
    assert torch.equal(plain.edge_attr, attributes[plain.perm])
    for graph in (plain.with_self_loops(), Graph.from_edge_index(edge_index, 3, attributes, add_self_loops=True)):
        loop = graph.src == graph.dst
        assert graph.edge_attr[loop].flatten().tolist() == [0.0, 3.0, 0.0]  # nothing, (1 + 2 + 6) / 3, nothing
        assert torch.equal(graph.edge_attr[~loop], attributes[graph.perm[~loop]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_sums_of_rows_as_on_a_gpu(shape):
    """What the mean there is made of: the same numbers and both derivatives as adding edge by edge."""
    graph = Graph.from_edge_index(random_edges(9, 40), 11)  # two rows without edges
    values = torch.randn(40, *shape, dtype=torch.float64, requires_grad=True)

    def function(values):
        rows = SumOfRows.apply(values, graph.rowptr, graph.dst).sin()
        return AtRows.apply(rows, graph.rowptr, graph.dst).sin()

    expected = torch.zeros(11, *shape, dtype=torch.float64).index_add(0, graph.dst, values)
    torch.testing.assert_close(SumOfRows.apply(values, graph.rowptr, graph.dst), expected)
    assert torch.autograd.gradcheck(function, values, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, values, fast_mode=True)


def test_graphs_that_differ_in_attributes_share_the_rest():
    graph = Graph.from_edge_index(random_edges(9, 40), 9, torch.rand(40))
    other = graph.with_attributes(torch.rand(40))
    assert other.dst is graph.dst
    for name in ("with_self_loops", "with_identity"):
        one, two = (getattr(each, name)() for each in (graph, other))
        assert two.rowptr is one.rowptr
        assert two.dst is one.dst
        assert not torch.equal(two.edge_attr, one.edge_attr)
        again = getattr(Graph.from_edge_index(random_edges(9, 40), 9, other.edge_attr[graph.perm.argsort()]), name)()
        torch.testing.assert_close(two.edge_attr, again.edge_attr)
        assert torch.equal(two.perm, again.perm)


@given(edge_lists())
def test_to_undirected_is_pygs(case):
    nodes, edge_index = case
    graph = Graph.from_edge_index(edge_index, nodes).to_undirected()
    assert graph.is_undirected
    assert _as_multiset(graph.edge_index) == _as_multiset(to_undirected(edge_index, num_nodes=nodes))


def test_is_undirected_counts_multiplicity():
    assert Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]])).is_undirected
    assert not Graph.from_edge_index(torch.tensor([[0, 0, 1], [1, 1, 0]])).is_undirected


def test_bipartite():
    edge_index = torch.tensor([[0, 4, 2, 4], [1, 0, 1, 1]])
    graph = Graph.from_edge_index(edge_index, (5, 2))
    assert graph.is_bipartite
    assert (graph.num_src, graph.num_dst) == (5, 2)
    assert graph.in_degree.tolist() == [1, 3]
    assert graph.out_degree.tolist() == [1, 0, 1, 0, 2]
    assert graph.with_self_loops().num_edges == 4 + 2  # one for each node that is on both sides
    for refused in (lambda: graph.num_nodes, lambda: graph.normalization(torch.float32), graph.to_undirected):
        with pytest.raises(ValueError, match="bipartite"):
            refused()


def test_non_contiguous_and_int32_input():
    edge_index = random_edges(9, 40)
    expected = Graph.from_edge_index(edge_index, 9)
    for given_index in (edge_index.t().contiguous().t(), edge_index.int(), edge_index.repeat(1, 2)[:, :40]):
        graph = Graph.from_edge_index(given_index, 9)
        assert torch.equal(graph.edge_index, expected.edge_index)
        assert torch.equal(graph.perm, expected.perm)


def test_to_and_repr():
    graph = Graph.from_edge_index(random_edges(4, 5), 4, torch.ones(5))
    assert repr(graph) == "Graph(num_nodes=4, num_edges=5)"
    assert (
        repr(Graph.from_edge_index(torch.zeros(2, 1, dtype=torch.long), (2, 1))) == "Graph(num_nodes=2→1, num_edges=1)"
    )
    moved = graph.with_identity().to("meta")
    assert moved.device.type == moved.edge_attr.device.type == moved.extra.device.type == "meta"


@pytest.mark.parametrize(
    ("edge_index", "nodes", "error", "message"),
    [
        (torch.tensor([[0, 1], [1, 5]]), 3, IndexError, r"expected every target in 0\.\.2, got 5 at edge 1"),
        (torch.tensor([[0, -1], [1, 0]]), 3, IndexError, r"expected every source in 0\.\.2, got -1 at edge 1"),
        (torch.tensor([[0, -1], [1, 0]]), None, IndexError, "got -1"),
        (torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 3, TypeError, "edge_index: expected integers, got torch.float32"),
        (torch.zeros(2, 3, dtype=torch.bool), 3, TypeError, "edge_index: expected integers"),
        (torch.zeros(3, 2, dtype=torch.long), 3, ValueError, r"edge_index: expected shape \[2, E\], got \[3, 2\]"),
        ([[0], [1]], 3, TypeError, "edge_index: expected a tensor"),
        (torch.zeros(2, 1, dtype=torch.long), -1, ValueError, "num_nodes: expected a count"),
        (torch.zeros(2, 1, dtype=torch.long), 2.5, ValueError, "num_nodes: expected a count"),
        (torch.zeros(2, 1, dtype=torch.long), 0, IndexError, "got 0 at edge 0"),
        (torch.zeros(2, 0, dtype=torch.long), 2**31, ValueError, "at most 2147483647 nodes"),
    ],
)  # fmt: skip
def test_bad_edges_are_named(edge_index, nodes, error, message):
    with pytest.raises(error, match=message):
        Graph.from_edge_index(edge_index, nodes)


def test_bad_attributes_are_named():
    edge_index = random_edges(4, 6)
    with pytest.raises(ValueError, match=r"edge_attr: expected one row per edge \(6\), got shape \[5, 2\]"):
        Graph.from_edge_index(edge_index, 4, torch.zeros(5, 2))
    with pytest.raises(ValueError, match="edge_index: expected numbers to sort, got a tensor on the device meta"):
        Graph.from_edge_index(torch.zeros(2, 3, dtype=torch.long, device="meta"))
    with pytest.raises(ValueError, match="edge_attr: expected device cpu like edge_index, got meta"):
        Graph.from_edge_index(edge_index, 4, torch.zeros(6, device="meta"))


def test_an_edge_index_of_pyg_is_taken_as_the_tensor_it_holds():
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    found = Graph.from_edge_index(EdgeIndex(edges, sparse_size=(3, 3)), 3)
    assert torch.equal(found.edge_index, Graph.from_edge_index(edges, 3).edge_index)


def test_a_graph_first_seen_in_inference_mode_can_be_trained_on():
    edges, x = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), torch.randn(3, 4)
    for name in ("gcn", "gat", "lmgc"):
        graph, layer = Graph.from_edge_index(edges, 3), LMGConv(4, 5, coefficients=name)
        with torch.inference_mode():
            layer(x, graph, return_attention_weights=True)
        out, _ = layer(x, graph, return_attention_weights=True)
        out.sum().backward()
        assert layer.lin.weight.grad.abs().sum() > 0


def test_normalisation_of_a_hub_in_half_precision():
    nodes = 66_000  # more neighbours than the largest number of float16
    spokes = torch.stack([torch.arange(1, nodes), torch.zeros(nodes - 1, dtype=torch.int64)])
    graph = Graph.from_edge_index(spokes, nodes, add_self_loops=True)
    wanted = graph.normalization(torch.float32)
    torch.testing.assert_close(graph.normalization(torch.float16).float(), wanted, rtol=1e-3, atol=0)
    weighted = graph.with_attributes(torch.ones(graph.num_edges, dtype=torch.float16))
    torch.testing.assert_close(normalization(weighted, torch.float16).float(), wanted, rtol=1e-3, atol=0)
