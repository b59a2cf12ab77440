"""A graph's arrays may be anybody's, and change: a kernel sees only those of one sorted graph."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from graphs import AWKWARD, awkward, random_edges
from mimogc import Graph
from mimogc.nn import LMGConv

NODES, EDGES = 20, 60
ARRAYS = ("rowptr", "sources", "colptr", "targets", "slot")


def _graph(**options):
    return Graph.from_edge_index(random_edges(NODES, EDGES), NODES, **options)


def _layer(**options):
    torch.manual_seed(0)
    return LMGConv(5, 5, add_self_loops=False, **options)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("loops", [False, True])
def test_every_sorted_graph_is_one(name, loops):
    nodes, edge_index = awkward(name)
    graph = Graph.from_edge_index(edge_index, nodes, add_self_loops=loops)
    for other in (graph, graph.with_self_loops(), graph.with_identity()):
        anybodys = replace(other)  # which nobody has made known
        x = torch.randn(nodes, 5)
        assert torch.equal(_layer()(x, anybodys), _layer()(x, other))


@pytest.mark.kernels
@pytest.mark.parametrize("value", [-1, 10**9])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_no_graph_are_refused(name, value):
    graph = _graph()
    array = getattr(graph, name).clone()
    array[3] = value
    wrong = replace(graph, **{name: array})
    with pytest.raises(ValueError, match=rf"graph: expected arrays as .* sorts them, got others in {name}$"):
        _layer()(torch.randn(NODES, 5), wrong)


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["sources", "slot"])
def test_arrays_in_another_order_are_refused(name):
    graph = _graph()
    wrong = replace(graph, **{name: getattr(graph, name).flip(0).contiguous()})
    with pytest.raises(ValueError, match="got others in"):
        _layer()(torch.randn(NODES, 5), wrong)


@pytest.mark.kernels
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_change_are_seen(name):
    graph, x = _graph(), torch.randn(NODES, 5)
    _layer()(x, graph)
    getattr(graph, name)[2] = 10**8
    with pytest.raises(ValueError, match="got others in"):
        _layer()(x, graph)


@pytest.mark.kernels
def test_arrays_that_are_resized_are_seen():
    graph, x = _graph(), torch.randn(NODES, 5)
    _layer()(x, graph)
    graph.slot.resize_(3)
    with pytest.raises(ValueError, match="graph: expected arrays of int32 for"):
        _layer()(x, graph)


@pytest.mark.kernels
def test_positions_of_other_edges_are_refused():
    graph = _graph()
    with pytest.raises(ValueError, match=rf"position: expected int32 \[{EDGES}\], got torch.int32 \[3\]"):
        replace(graph, position=graph.position[:3]).with_self_loops()


def test_negated_indices():
    edge_index = random_edges(NODES, EDGES)
    found = Graph.from_edge_index(torch._neg_view(-edge_index), NODES)
    assert torch.equal(found.edge_index, Graph.from_edge_index(edge_index, NODES).edge_index)


@pytest.mark.parametrize("coefficients", ["lmgc", "gcn", "acm"])
def test_shapes_alone_leave_the_graph_as_it_is(coefficients):
    layer, graph, x = LMGConv(5, 5, coefficients=coefficients), _graph(), torch.randn(NODES, 5)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert layer(mode.from_tensor(x), graph).shape == (NODES, 5)
    assert type(graph.src) is torch.Tensor
    torch.testing.assert_close(layer(x, graph), layer(x, graph.edge_index))


@pytest.mark.parametrize("raw", [False, True])
def test_a_recorded_program_has_the_graph(raw):
    layer, graph = LMGConv(5, 5), random_edges(NODES, EDGES) if raw else _graph()
    program = make_fx(lambda x: layer(x, graph))(torch.randn(NODES, 5))
    other = torch.randn(NODES, 5)
    torch.testing.assert_close(program(other), layer(other, graph))


def test_a_program_of_edges_cannot_be_recorded():
    layer = LMGConv(5, 5)
    with pytest.raises(TypeError, match="edge_index: make_fx cannot record how edges are sorted"):
        make_fx(lambda x, edges: layer(x, edges))(torch.randn(NODES, 5), random_edges(NODES, EDGES))


@pytest.mark.parametrize("options", [{"coefficients": "gcn"}, {"edge_dim": 1}], ids=str)
def test_attributes_that_change_in_inference_mode(options):
    layer, x = LMGConv(5, 5, **options), torch.randn(NODES, 5)
    with torch.inference_mode():
        graph = _graph(edge_attr=torch.rand(EDGES))
        layer(x, graph)
        graph.edge_attr.mul_(2)
        fresh = Graph.from_edge_index(graph.edge_index, NODES, graph.edge_attr.clone())
        torch.testing.assert_close(layer(x, graph), layer(x, fresh))


def test_what_is_computed_under_several_transforms_is_kept_for_later():
    layer, graph, x = LMGConv(5, 5, coefficients="gcn"), _graph(), torch.randn(3, NODES, 5)
    with torch.inference_mode():
        expected = torch.func.vmap(lambda one: layer(one, graph))(x)
    found = layer(x[1].clone().requires_grad_(), graph)
    found.sum().backward()
    torch.testing.assert_close(found.detach(), expected[1].clone())


@pytest.mark.kernels
def test_a_sorted_graph_is_not_checked_again(monkeypatch):
    graph = _graph()
    monkeypatch.setattr("mimogc._structs._check_sorted", lambda made: pytest.fail("checked"))
    for other in (graph, replace(graph), graph.with_self_loops()):
        _layer()(torch.randn(NODES, 5), other)


@pytest.mark.kernels
def test_arrays_where_known_ones_lay_are_checked():
    graph, x, layer = _graph(), torch.randn(NODES, 5), _layer()
    memory = graph.slot.clone().untyped_storage()

    def there():
        return replace(graph, slot=torch.empty(0, dtype=torch.int32).set_(memory, 0, (EDGES,)))

    layer(x, there())
    memory.copy_(graph.slot.flip(0).contiguous().untyped_storage())
    with pytest.raises(ValueError, match="got others in slot"):
        layer(x, there())
