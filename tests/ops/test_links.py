"""Classes of nodes that are alike: those of colour refinement, and layers on them equal to layers on all nodes."""

import contextlib
import ctypes

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import AWKWARD, awkward, edge_lists, random_edges
from mimogc import Graph
from mimogc.nn import LMGCStack
from mimogc.ops import Settings, Weights, lmgcs, use_reference
from mimogc.ops._links import links_of_layers

pytestmark = pytest.mark.kernels
ROWS, LAYERS = 3, 5


def _cycles():
    """A graph of copies, where most nodes are alike: 20 cycles of six nodes with a tail at one of them."""
    one = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 6]])
    edges = torch.cat([one, one.flip(0)], dim=1)
    return 140, torch.cat([edges + 7 * copy for copy in range(20)], dim=1)


def _array(address, size):
    return list((ctypes.c_int32 * size).from_address(address)) if size else []


def _refined(graph, colour):
    """One round of colour refinement by hand: the classes of all nodes, in the order of their first nodes."""
    ptr, sources = graph.rowptr.tolist(), graph.sources.tolist()
    names = {}
    keys = [(colour[i], *sorted(colour[j] for j in sources[ptr[i] : ptr[i + 1]])) for i in range(graph.num_dst)]
    return [names.setdefault(key, len(names)) for key in keys]


def _check_links(link, graph, colour, classes):
    """The graph of `link` is that from the colours to the first nodes of the classes, in both orders."""
    ptr, sources = graph.rowptr.tolist(), graph.sources.tolist()
    first = [classes.index(c) for c in range(link.num_dst)]
    assert link.num_dst == len(set(classes))
    assert _array(link.parent, link.num_dst) == [colour[i] for i in first]
    rowptr = _array(link.rowptr, link.num_dst + 1)
    col = _array(link.sources, link.num_edges)
    for c, i in enumerate(first):
        assert col[rowptr[c] : rowptr[c + 1]] == [colour[j] for j in sources[ptr[i] : ptr[i + 1]]]
    colptr = _array(link.colptr, link.num_src + 1)
    targets, slot = _array(link.targets, link.num_edges), _array(link.slot, link.num_edges)
    by_source = [(j, targets[q], slot[q]) for j in range(link.num_src) for q in range(colptr[j], colptr[j + 1])]
    by_target = [(col[e], c, e) for c in range(link.num_dst) for e in range(rowptr[c], rowptr[c + 1])]
    assert by_source == sorted(by_target)


def _check(graph, index):
    held = links_of_layers(graph, LAYERS, index, ROWS, True)
    links = held.of(graph)
    assert len(links) == LAYERS
    colour, num_rows = index.tolist(), ROWS
    for number, link in enumerate(links):
        if not link.parent:
            assert number
            assert (link.num_src, link.num_dst) == (graph.num_dst, graph.num_dst)
            continue
        last = number == LAYERS - 1 or 3 * num_rows > 2 * graph.num_dst
        classes = list(range(graph.num_dst)) if last else _refined(graph, colour)
        assert link.num_src == num_rows
        _check_links(link, graph, colour, classes)
        colour, num_rows = classes, link.num_dst
    assert links[-1].num_dst == graph.num_dst


@settings(deadline=None, max_examples=100)
@given(edge_lists(max_nodes=20, max_edges=40), st.integers(0, 2**20))
def test_classes_are_those_of_colour_refinement(edges, seed):
    nodes, edge_index = edges
    generator = torch.Generator().manual_seed(seed)
    _check(Graph.from_edge_index(edge_index, nodes), torch.randint(0, ROWS, (nodes,), generator=generator) // 2)


def test_copies_are_computed_once():
    nodes, edge_index = _cycles()
    graph, index = Graph.from_edge_index(edge_index, nodes), torch.zeros(nodes, dtype=torch.long)
    _check(graph, index)
    links = links_of_layers(graph, LAYERS, index, ROWS, True)
    # By degree; then by the distance to the tail, one step further per layer, until all distances are told apart.
    assert [link.num_dst for link in links.of(graph)] == [3, 4, 5, 5, nodes]
    assert [link.num_dst for link in links_of_layers(graph, 2, index, ROWS, False).of(graph)] == [nodes, nodes]


def _assert_same(layers, table, index, graph):
    """Values and gradients of the layers on classes are those of the layers one after another on all nodes."""
    dtype, inputs = table.dtype, [table, *layers.parameters()]
    weight = torch.randn(graph.num_dst, layers.channels, dtype=dtype)
    found = layers(table, graph, index)
    with use_reference():
        wanted = table[index]
        for layer in layers.convolutions():
            wanted = torch.nn.functional.gelu(layer(wanted, graph))
        expected = torch.autograd.grad((wanted * weight).sum(), inputs)
    gradients = torch.autograd.grad((found * weight).sum(), inputs)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    for one, other in zip([found, *gradients], [wanted, *expected], strict=True):
        scale = other.abs().max().clamp(min=1) if other.numel() else 1
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [6, 33])
@pytest.mark.parametrize("name", [*AWKWARD, "copies", "random"])
def test_layers_on_classes(name, width, dtype):
    given = {"copies": _cycles, "random": lambda: (60, random_edges(60, 200))}
    nodes, edge_index = given[name]() if name in given else awkward(name)
    layers = LMGCStack(width, width, 4, heads=3).to(dtype)
    table = torch.randn(ROWS, width, dtype=dtype, requires_grad=True)
    graph = Graph.from_edge_index(edge_index, nodes, add_self_loops=True)
    _assert_same(layers, table, torch.arange(nodes) % 7 % ROWS, graph)


def test_index_need_not_be_contiguous():
    nodes, edge_index = _cycles()
    graph, index = Graph.from_edge_index(edge_index, nodes), torch.arange(2 * nodes)[::2] % ROWS
    layers = LMGCStack(5, 5, 3, add_self_loops=False).double()
    _assert_same(layers, torch.randn(ROWS, 5).double().requires_grad_(), index, graph)


@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_a_row_that_is_not_there_is_named(wrong):
    index = torch.zeros(20, dtype=torch.long)
    index[7] = wrong
    graph = Graph.from_edge_index(random_edges(20, 60), 20)
    with pytest.raises(IndexError, match=f"index: expected rows 0 to 2, got {wrong}"):
        links_of_layers(graph, 2, index, ROWS, True)


def test_no_layers():
    nodes, edge_index = _cycles()
    index = torch.zeros(nodes, dtype=torch.long)
    assert links_of_layers(Graph.from_edge_index(edge_index, nodes), 0, index, ROWS, True)[:2] == ([], 0)


def test_more_rows_than_nodes():
    layers = LMGCStack(5, 5, 2).double()
    graph = Graph.from_edge_index(random_edges(6, 12), 6)
    _assert_same(layers, torch.randn(50, 5).double().requires_grad_(), torch.tensor([49, 0, 7, 7, 0, 49]), graph)


def test_the_default_device_does_not_matter():
    nodes, edge_index = _cycles()
    layers = LMGCStack(5, 5, 3)
    graph, index = Graph.from_edge_index(edge_index, nodes), torch.arange(nodes) % ROWS
    table = torch.randn(ROWS, 5)
    expected = layers(table, graph, index)
    with torch.device("meta"):
        found = layers(table, graph, index)
    assert torch.equal(found, expected)


def test_scores_of_edges_tell_nodes_apart():
    """Nodes that are alike but for their edges' own terms are not computed once."""
    nodes, edge_index = _cycles()
    graph, index = Graph.from_edge_index(edge_index, nodes), torch.arange(nodes) % ROWS
    shapes = (8, 4), (4, 8), (2,), (graph.num_edges, 2), (4,)
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in (*shapes, (ROWS, 4))]
    weights, table = [Weights(*tensors[:5])] * 3, tensors[5]
    results = []
    for reference in (False, True):
        with use_reference() if reference else contextlib.nullcontext():
            out = lmgcs(table, weights, [Settings(0.2, True)] * 3, graph, index)
            results.append([out, *torch.autograd.grad(out.square().sum(), tensors)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("width", [6, 33])
def test_threads(width):
    """Repeatable for a number of threads, and the same up to rounding for all."""
    graph, index = Graph.from_edge_index(random_edges(3000, 9000), 3000), torch.arange(3000) % ROWS
    layers = LMGCStack(width, width, 3)
    inputs = [torch.randn(ROWS, width, requires_grad=True), *layers.parameters()]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 1, 2, 2):
            torch.set_num_threads(threads)
            out = layers(inputs[0], graph, index)
            results.append([out, *torch.autograd.grad(out.mean(), inputs)])
    finally:
        torch.set_num_threads(before)
    for one, again, two, two_again in zip(*results, strict=True):
        assert torch.equal(one, again)
        assert torch.equal(two, two_again)
        torch.testing.assert_close(one / one.abs().max(), two / one.abs().max(), rtol=0, atol=1e-4)
