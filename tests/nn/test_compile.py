"""torch.compile without graph breaks, torch.export with dynamic sizes: the same numbers as eager."""

import pytest
import torch

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import GINLayer, LMGConv
from mimogc.nn.coefficients import BY_NAME
from mimogc.ops import backend, pair_scores, propagate

# What torch itself warns of while it compiles.
pytestmark = pytest.mark.filterwarnings("ignore")
# The kernels are those of three operators, which these have; in plain torch and in the interpreter the others show
# nothing more.
NAMES = list(BY_NAME) if backend() == "native" else ["lmgc", "gat", "gatv2"]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    torch.manual_seed(0)


def _step(function, layer, x, *graph):
    """Output, gradient of x and of the parameters."""
    layer.zero_grad(set_to_none=True)
    x = x.clone().requires_grad_()
    out = function(x, *graph)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(parameter.grad.clone() for parameter in layer.parameters())]


def _assert_compiles(layer, x, *graph, backend="aot_eager"):
    expected = _step(layer, layer, x, *graph)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for one, other in zip(_step(compiled, layer, x, *graph), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["edge_index", "Graph"])
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_no_graph_break(name, loops, form):
    x, edge_index = torch.randn(20, 6), random_edges(20, 50)
    graph = Graph.from_edge_index(edge_index, 20) if form == "Graph" else edge_index
    _assert_compiles(LMGConv(6, 8, coefficients=name, add_self_loops=loops), x, graph)


@pytest.mark.parametrize(
    "options", [{"combine": "concat"}, {"combine": "mean"}, {"edge_dim": 3}, {"residual": True}], ids=str
)
def test_no_graph_break_with(options):
    x, edge_index = torch.randn(20, 6), random_edges(20, 50)
    attributes = (torch.randn(50, 3),) if "edge_dim" in options else ()
    _assert_compiles(LMGConv(6, 8, **options), x, edge_index, *attributes)


@pytest.mark.parametrize("learnt", [True, False])
@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_no_graph_break_with_features(name, learnt):
    x, edge_index = torch.randn(20, 6), random_edges(20, 50)
    layer = LMGConv(6, 8, coefficients=name, edge_dim=3)
    _assert_compiles(layer, x, edge_index, torch.randn(50, 3, requires_grad=learnt))


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("name", ["gcn", "acm"])
def test_no_graph_break_with_weights(name, ready):
    x, edge_index, weight = torch.randn(20, 6), random_edges(20, 50), torch.rand(50)
    graph = (Graph.from_edge_index(edge_index, 20, weight),) if ready else (edge_index, weight)
    _assert_compiles(LMGConv(6, 8, coefficients=name), x, *graph)


def test_gin_and_inductor():
    x, edge_index = torch.randn(20, 6), random_edges(20, 50)
    _assert_compiles(GINLayer(6, 8), x, edge_index)
    torch._dynamo.reset()
    _assert_compiles(LMGConv(6, 8), x, edge_index, backend="inductor")


def test_inductor_and_tensors_that_are_not_contiguous():
    graph = Graph.from_edge_index(random_edges(6, 14), 6)

    def function(alpha, h):
        alpha, h = alpha.t() * 2, h.permute(2, 1, 0) * 2
        return propagate(alpha, h, graph) + propagate(pair_scores(h, h, h[0], graph), h, graph)

    inputs = [torch.randn(2, 14, requires_grad=True), torch.randn(3, 2, 6, requires_grad=True)]
    found, wanted = torch.compile(function, fullgraph=True)(*inputs), function(*inputs)
    torch.testing.assert_close(found, wanted)
    grads = (torch.autograd.grad(out.square().sum(), inputs) for out in (found, wanted))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", ["lmgc", "gatv2", "acm"])
@pytest.mark.parametrize("loops", [True, False])
def test_export_with_any_number_of_nodes_and_edges(name, loops, tmp_path):
    layer = LMGConv(6, 8, coefficients=name, add_self_loops=loops)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    sizes = ({0: nodes}, {1: edges})
    program = torch.export.export(layer, (torch.randn(20, 6), random_edges(20, 50)), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "layer.pt2")
    loaded = torch.export.load(tmp_path / "layer.pt2").module()
    for count, size in ((20, 50), (33, 7), (5, 200)):
        x, edge_index = torch.randn(count, 6), random_edges(count, size)
        torch.testing.assert_close(loaded(x, edge_index), layer(x, edge_index), rtol=1e-4, atol=1e-5)
    with pytest.raises(IndexError, match=r"edge_index: expected every source in 0\.\.4, got 19"):
        loaded(torch.randn(5, 6), torch.tensor([[19, 0], [0, 1]]))


def test_export_of_a_graph():
    x, graph = torch.randn(20, 6), Graph.from_edge_index(random_edges(20, 50), 20)
    layer = LMGConv(6, 8)
    program = torch.export.export(layer, (x, graph))
    torch.testing.assert_close(program.module()(x, graph), layer(x, graph), rtol=1e-4, atol=1e-5)


def test_operators_pass_torchs_own_checks():
    graph = Graph.from_edge_index(random_edges(6, 14), 6)
    arrays = [graph.rowptr, graph.sources, graph.colptr, graph.targets, graph.slot]

    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    for reduce in ("sum", "none"):
        torch.library.opcheck(torch.ops.mimogc.propagate.default, (random(14, 2), random(6, 2, 3), arrays, reduce))
    for edge in (None, random(14, 2)):
        inputs = (random(6, 2), random(6, 2), random(6, 2, 3), edge, arrays)
        torch.library.opcheck(torch.ops.mimogc.propagate_tanh.default, inputs)
    for edge in ((None, None), (torch.randn(14, 4).double(), random(2, 3, 4)), (random(14, 4), random(2, 3, 4))):
        pairs = random(6, 2, 3), random(6, 2, 3), random(2, 3), *edge, 0.2, arrays
        torch.library.opcheck(torch.ops.mimogc.pair_scores.default, pairs)
    torch.library.opcheck(torch.ops.mimogc.edge_softmax.default, (random(14, 2), arrays))
    for sources in (False, True):
        torch.library.opcheck(torch.ops.mimogc.at_ends.default, (random(6, 2), arrays, sources))
        torch.library.opcheck(torch.ops.mimogc.sum_at_ends.default, (random(14, 2), arrays, sources))
    sort = torch.ops.mimogc.sort_edges.default
    torch.library.opcheck(sort, (graph.src, graph.dst, 6, 6, False))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ready", [True, False])
def test_dynamic_sizes_without_a_graph_break(name, ready):
    """Compiled once for any size, with gradients; free coefficients belong to one graph."""
    layer = LMGConv(6, 8, coefficients=name)
    for nodes, edges in ((20, 50),) if name == "free" else ((20, 50), (33, 71)):
        x, edge_index = torch.randn(nodes, 6), random_edges(nodes, edges)
        graph = Graph.from_edge_index(edge_index, nodes, add_self_loops=True) if ready else edge_index
        expected = layer(x, graph)
        compiled = torch.compile(layer, dynamic=True, fullgraph=True, backend="aot_eager")
        found = compiled(x, graph)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        grads = [torch.autograd.grad(out.square().sum(), layer.lin.weight)[0] for out in (found, expected)]
        torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-3)
