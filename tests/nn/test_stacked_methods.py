"""Layers of the other methods as one function: the same as calling each, in values, gradients and errors."""

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.index import Index

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import LMGConv, stacked
from mimogc.nn._stackable import stackable
from mimogc.nn.coefficients import ACM
from mimogc.nn.nonlinear import GINLayer
from mimogc.ops import Fixed, Gin, run_stack, use_reference

NODES, ROWS = 30, 4
MAKERS = {
    "gin": lambda size, out, **_: GINLayer(size, out, eps=0.3),
    "gcn": lambda size, out, **more: LMGConv(size, out, coefficients="gcn", **more),
    "acm": lambda size, out, **more: LMGConv(size, out, coefficients="acm", **more),
    "acm with identity": lambda size, out, **more: LMGConv(size, out, coefficients=ACM(identity=True), **more),
    "gatv2": lambda size, out, **more: LMGConv(size, out, coefficients="gatv2", **more),
    "fagcn": lambda size, out, **more: LMGConv(size, out, coefficients="fagcn", **more),
}
BETWEEN = [{}, {"gain": 0.5}, {"jumping_knowledge": True}, {"gain": 0.7, "jumping_knowledge": True}]


def _graph(edges=90, seed=0):
    """With isolated nodes, loops and duplicates."""
    torch.manual_seed(seed)
    found = random_edges(NODES - 2, edges) if edges else torch.empty(2, 0, dtype=torch.int64)
    return Graph.from_edge_index(torch.cat([found, found[:, :3], torch.tensor([[1], [1]])], dim=1), NODES)


def _layers(name, depth=3, channels=36, dtype=torch.float64, **options):
    torch.manual_seed(1)
    layers = torch.nn.ModuleList(MAKERS[name](channels, channels, **options) for _ in range(depth)).to(dtype)
    for name, value in layers.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(value)
    return layers


def _one_by_one(layers, x, graph, gain=None, jumping_knowledge=False):
    outputs = []
    for layer in layers:
        y = F.gelu(layer(x, graph))
        x = y if gain is None else x + gain * y
        outputs.append(x)
    return torch.stack(outputs).amax(0) if jumping_knowledge else x


def _compare(layers, x, graph, index=None, second=False, **between):
    inputs = [x, *layers.parameters()]
    weight = torch.randn(NODES, layers[-1].out_channels, dtype=x.dtype)

    def derivatives(out):
        found = [out, *torch.autograd.grad((out * weight).sum(), inputs, retain_graph=True)]
        if second:
            first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
            found += torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)
        return found

    found = derivatives(stacked(layers, x, graph, index, **between))
    wanted = derivatives(_one_by_one(layers, x if index is None else x[index], graph, **between))
    tolerance = 1e-4 if x.dtype == torch.float32 else 1e-10
    for one, other in zip(found, wanted, strict=True):
        scale = other.abs().max().clamp(min=1)
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("between", BETWEEN, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MAKERS)
def test_same_as_one_by_one(name, dtype, between):
    x = torch.randn(NODES, 36, dtype=dtype, requires_grad=True)
    _compare(_layers(name, dtype=dtype), x, _graph(), second=dtype == torch.float64, **between)


@pytest.mark.parametrize("between", BETWEEN, ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_nodes_that_begin_as_rows_of_a_table(name, between):
    x = torch.randn(ROWS, 36, dtype=torch.float64, requires_grad=True)
    _compare(_layers(name, depth=4), x, _graph(), torch.arange(NODES) % (ROWS - 1), **between)  # one row has no node


@pytest.mark.kernels
@pytest.mark.parametrize("between", BETWEEN, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["gin", "gatv2"])
def test_copies_of_a_graph_are_computed_once(name, dtype, between, monkeypatch):
    """A path with a branch, six times: nodes of one row have other degrees, and copies are alike to the last layer."""
    one = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 4, 5]])
    edges = torch.cat([one, one.flip(0)], dim=1)
    copies = torch.cat([edges + 6 * number for number in range(NODES // 6)], dim=1)
    graph = Graph.from_edge_index(copies, NODES)
    index = torch.tensor([0, 0, 1, 1, 0, 2]).repeat(NODES // 6)
    taken, kind = [], type(stackable(_layers(name), torch.randn(ROWS, 36).double(), graph, index).layers[0])
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, x, *rest: taken.append(x.size(0)) or forward(self, x, *rest))
    layers, table = _layers(name, dtype=dtype), torch.randn(ROWS, 36, dtype=dtype, requires_grad=True)
    _compare(layers, table, graph, index, **between)
    assert max(taken) <= 6  # rows of a class, where there are NODES


@pytest.mark.parametrize("name", ["gin", "gcn", "fagcn"])
@pytest.mark.parametrize("channels", [1, 5, 31, 32, 33, 40, 47, 48, 49, 64, 65, 100])
def test_widths(name, channels):
    for dtype in (torch.float32, torch.float64):
        layers = _layers(name, 2, channels, dtype)
        _compare(layers, torch.randn(NODES, channels, dtype=dtype, requires_grad=True), _graph())


@pytest.mark.parametrize("heads", [1, 3, 4, 6])
@pytest.mark.parametrize("channels", [1, 5, 8, 31, 48, 50])
def test_heads_and_widths_of_gatv2(heads, channels):
    for dtype in (torch.float32, torch.float64):
        layers = _layers("gatv2", 2, channels, dtype, heads=heads)
        _compare(layers, torch.randn(NODES, channels, dtype=dtype, requires_grad=True), _graph())


@pytest.mark.parametrize("name", MAKERS)
def test_without_edges_or_nodes(name):
    layers = _layers(name)
    _compare(layers, torch.randn(NODES, 36, dtype=torch.float64, requires_grad=True), _graph(0))
    none = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0)
    wider = [
        MAKERS[name](36, 64).double(),
        MAKERS[name](64, 36).double(),
    ]  # shapes of parameters, not of what is missing
    for modules in (layers, torch.nn.ModuleList(wider)):
        out = stacked(modules, torch.empty(0, 36, dtype=torch.float64, requires_grad=True), none)
        out.sum().backward()
        assert out.shape == (0, 36)
        assert all(not value.grad.any() for value in modules.parameters())


@pytest.mark.parametrize("options", [{"bias": False}, {"add_self_loops": False}], ids=str)
@pytest.mark.parametrize("name", [name for name in MAKERS if name != "gin"])
def test_options(name, options):
    layers = _layers(name, **options)
    x = torch.randn(NODES, 36, dtype=torch.float64, requires_grad=True)
    _compare(layers, x, _graph(), gain=1.0)


@pytest.mark.parametrize("name", MAKERS)
def test_other_widths_and_non_contiguous_features(name):
    torch.manual_seed(0)
    sizes = [(40, 36), (36, 50), (50, 33)]
    layers = torch.nn.ModuleList(MAKERS[name](*size) for size in sizes).double()
    x = torch.randn(40, NODES, dtype=torch.float64, requires_grad=True)
    _compare(layers, x.t().detach().requires_grad_(), _graph())
    with pytest.raises((ValueError, RuntimeError), match=r"channels|size|given"):
        stacked(layers, x.t(), _graph(), gain=1.0)


@pytest.mark.kernels
@pytest.mark.parametrize("name", MAKERS)
def test_it_is_one_function(name):
    layers, x = _layers(name), torch.randn(NODES, 36, dtype=torch.float64)
    found = stacked(layers, x, _graph(), gain=1.0)
    assert type(found.grad_fn).__name__ == "LayersBackward"
    with torch.no_grad():
        assert torch.equal(stacked(layers, x, _graph(), gain=1.0), found)


@pytest.mark.kernels
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["gin", "gatv2"])
def test_two_threads(name, threads):
    """Large enough for a parallel region, and the same bits every time."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        nodes = 600
        graph = Graph.from_edge_index(torch.randint(nodes, (2, 4 * nodes)), nodes)
        layers = _layers(name, 3, 64, torch.float32)
        x = torch.randn(nodes, 64, requires_grad=True)
        inputs = [x, *layers.parameters()]

        def run(compute):
            return torch.autograd.grad(compute().square().sum(), inputs)

        found = [run(lambda: stacked(layers, x, graph, gain=0.5)) for _ in range(2)]
        for one, again, other in zip(*found, run(lambda: _one_by_one(layers, x, graph, 0.5)), strict=True):
            assert torch.equal(one, again)
            torch.testing.assert_close(one / other.abs().max(), other / other.abs().max(), rtol=0, atol=1e-5)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["gin", "gatv2"])
def test_rows_of_a_table_on_two_threads(name):
    """Several nodes have one parent there, whose gradients no two threads may add to at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(0)
        ring = torch.arange(2000)
        graph = Graph.from_edge_index(torch.stack([ring, (ring + 1) % 2000]), 2000)
        layers = _layers(name, 3, 64)
        x = torch.randn(3, 64, dtype=torch.float64, requires_grad=True)
        index = (ring % 40 == 0).long() + (ring % 7 == 0).long()
        found, wanted = (
            torch.autograd.grad(out.square().sum(), [x, *layers.parameters()])
            for out in (stacked(layers, x, graph, index), _one_by_one(layers, x[index], graph))
        )
        for one, other in zip(found, wanted, strict=True):
            scale = other.abs().max().clamp(min=1)
            torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=1e-9)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", MAKERS)
def test_frozen_layers_have_no_gradients(name):
    layers, x = _layers(name), torch.randn(NODES, 36, dtype=torch.float64)
    layers[0].requires_grad_(False)
    frozen = next(iter(layers[2].parameters())).requires_grad_(False)
    stacked(layers, x, _graph(), gain=1.0).sum().backward()
    assert all(value.grad is None for value in [frozen, *layers[0].parameters()])
    assert all(value.grad is not None for value in layers[1].parameters())


def _hooked(layers):
    layers[1].register_forward_hook(lambda module, given, out: out * 0)


def _other_map(layers):
    layers[1].lin = torch.nn.Sequential(layers[1].lin)


def _learnt_eps(layers):
    layers[1].eps = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))


CHANGES = [(name, _hooked) for name in MAKERS] + [(name, _other_map) for name in MAKERS if name != "gin"]


@pytest.mark.parametrize(("name", "change"), [*CHANGES, ("gin", _learnt_eps)])
def test_what_they_cannot_do_together_they_do_one_by_one(name, change):
    layers, x = _layers(name), torch.randn(NODES, 36, dtype=torch.float64, requires_grad=True)
    before = stacked(layers, x, _graph())
    change(layers)
    found, wanted = stacked(layers, x, _graph()), _one_by_one(layers, x, _graph())
    torch.testing.assert_close(found, wanted)
    assert "Layers" not in type(found.grad_fn).__name__
    assert change is _other_map or not torch.equal(found, before)


@pytest.mark.parametrize("name", MAKERS)
def test_replaced_parameters_are_named(name):
    layers, x = _layers(name), torch.randn(NODES, 36, dtype=torch.float64)
    changed = layers[1].hidden if name == "gin" else layers[1].lin
    changed.weight = torch.nn.Parameter(changed.weight.detach()[:-1].clone())
    with pytest.raises((ValueError, RuntimeError), match=r"weight|size|shape"):
        stacked(layers, x, _graph())
    with pytest.raises(TypeError, match=r"float64|double|dtype"):
        stacked(_layers(name), x.float(), _graph())


def test_nan_stays_and_minus_infinity_is_rectified():
    layers = _layers("gin", 2)
    x = torch.randn(NODES, 36, dtype=torch.float64)
    x[3] = torch.nan
    found, wanted = stacked(layers, x, _graph()), _one_by_one(layers, x, _graph())
    torch.testing.assert_close(found, wanted, equal_nan=True)
    assert found.isnan().any()


def test_index_out_of_range_is_refused():
    for name in MAKERS:
        with pytest.raises(IndexError):
            stacked(_layers(name), torch.randn(3, 36, dtype=torch.float64), _graph(), torch.arange(NODES) % 5)


@pytest.mark.parametrize("name", [*MAKERS, "lmgc"])
def test_indices_that_are_not_plain_numbers_in_memory(name):
    """A subclass may have no memory of its own, and a view may be negated."""
    table, index = torch.randn(ROWS, 36, dtype=torch.float64), torch.arange(NODES) % ROWS
    layers = torch.nn.ModuleList([LMGConv(36, 36)]).double() if name == "lmgc" else _layers(name)
    wanted = stacked(layers, table, _graph(), index)
    for other in (Index(index), torch._neg_view(-index)):
        torch.testing.assert_close(stacked(layers, table, _graph(), other), wanted)
    index.untyped_storage().resize_(0)
    with pytest.raises((RuntimeError, IndexError)):
        stacked(layers, table, _graph(), index)


def test_edges_as_a_tensor_and_a_layer_of_ones_own():
    table, index, graph = torch.randn(ROWS, 36, dtype=torch.float64), torch.arange(NODES) % ROWS, _graph()
    for name in MAKERS:
        layers = _layers(name)
        wanted = stacked(layers, table, graph, index)
        torch.testing.assert_close(stacked(layers, table, graph.edge_index, index), wanted)
    bipartite = Graph.from_edge_index(torch.tensor([[0, 1, 2], [0, 1, 1]]), (5, 3))

    class Own(torch.nn.Module):
        def forward(self, x, graph):
            assert graph is bipartite
            return x[:3]

    assert stacked([Own()], torch.randn(5, 4), bipartite).shape == (3, 4)


def test_a_replaced_vector_of_gatv2_is_refused_and_a_replaced_forward_called():
    layers, x = _layers("gatv2", 1), torch.randn(NODES, 36, dtype=torch.float64)
    layers[0].coefficients.att = torch.nn.Parameter(torch.randn(2, 4, 36, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"att: expected shape \[1, 4, 36\]"):
        stacked(layers, x, _graph())
    layers = _layers("gcn", 2)
    own = layers[0].coefficients.forward
    layers[0].coefficients.forward = lambda x, h, graph: own(x, h, graph) * h[0].size(2)
    torch.testing.assert_close(stacked(layers, x, _graph()), _one_by_one(layers, x, _graph()))


def test_single_precision_eps():
    layers = _layers("gin", 2)
    for layer in layers:
        layer.eps = torch.tensor(0.1)
    x = torch.randn(NODES, 36, dtype=torch.float64)
    torch.testing.assert_close(stacked(layers, x, _graph()), _one_by_one(layers, x, _graph()), rtol=0, atol=1e-12)


def _weights():
    return tuple(torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in [(36, 36), (36,)] * 2)


def test_the_layers_of_forward_are_those_of_backward():
    graph, own = _graph(), _weights()
    x = torch.randn(NODES, 36, dtype=torch.float64, requires_grad=True)
    layers = [Gin(1.0)]
    out = run_stack(x, layers, [own], graph)
    layers[0] = Gin(5.0)
    (found,) = torch.autograd.grad(out.sum(), [x])
    (wanted,) = torch.autograd.grad(run_stack(x, [Gin(1.0)], [own], graph).sum(), [x])
    assert torch.equal(found, wanted)


def test_fixed_coefficients_have_gradients_and_are_watched():
    graph, (weight, bias, *_) = _graph(), _weights()
    x = torch.randn(NODES, 36, dtype=torch.float64, requires_grad=True)
    alpha = torch.rand(graph.num_edges, 1, dtype=torch.float64, requires_grad=True)
    own = [(alpha, weight, bias)]
    (found,) = torch.autograd.grad(run_stack(x, [Fixed()], own, graph).square().sum(), [alpha])
    with use_reference():
        (wanted,) = torch.autograd.grad(run_stack(x, [Fixed()], own, graph).square().sum(), [alpha])
    torch.testing.assert_close(found, wanted)
    plain = alpha.detach().clone()
    wanted = run_stack(x, [Fixed()], [(plain, weight, bias)], graph)
    torch.testing.assert_close(run_stack(x, [Fixed()], [(torch._neg_view(-plain), weight, bias)], graph), wanted)
    plain.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        wanted.sum().backward()


def test_refusals():
    graph, own, x = _graph(), _weights(), torch.randn(NODES, 36, dtype=torch.float64)
    alpha = graph.ones(torch.float64)
    for layers, weights, error in [
        ([], [], "weights: expected those of at least one layer"),
        ([Gin(1.0)], [own[:3]], "weights: expected 4 tensors of layer 0, got 3"),
        ([Gin(1.0)], [(None, *own[1:])], "first: expected a tensor"),
        ([Fixed()], [(alpha, None, None)], "weight: expected a tensor"),
        ([Fixed()], [(alpha[:, 0], own[0], None)], "alpha: expected shape"),
        ([Fixed()], [(alpha[:-1], own[0], None)], "alpha: expected shape"),
        ([Fixed()], [(alpha.float(), own[0], None)], "expected torch.float64"),
        ([Gin(1.0)], [(own[0][:-1], *own[1:])], "first: expected shape"),
    ]:
        with pytest.raises((TypeError, ValueError), match=error):
            run_stack(x, layers, weights, graph)
    with pytest.raises(TypeError, match="rows: expected a tensor, got list"):
        run_stack(x, [Gin(1.0)], [own], graph, [0] * NODES)
    with pytest.raises(TypeError, match="factor: expected a float, got Tensor"):
        Gin(torch.ones(()))


@pytest.mark.kernels
def test_negated_weights_from_hooks_on_saved_tensors():
    layers = _layers("gin", 2)
    for layer in layers:  # not contiguous
        layer.last.weight = torch.nn.Parameter(layer.last.weight.detach().t().contiguous().t())
    x = torch.randn(NODES, 36, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(stacked(layers, x, _graph()).sum(), [x])[0]

    def negated(value):
        return torch._neg_view((-value).contiguous()) if value.dtype.is_floating_point else value

    with torch.autograd.graph.saved_tensors_hooks(lambda value: value, negated):
        out = stacked(layers, x, _graph())
    torch.testing.assert_close(torch.autograd.grad(out.sum(), [x])[0], wanted)
