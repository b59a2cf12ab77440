"""Layers one after another as one function: the same as calling each, in values, gradients, start and errors."""

import pytest
import torch
from torch.nn import functional as F

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import LMGConv, LMGCStack, calibrate, stacked
from mimogc.nn.coefficients import GCN, LMGC, Eq12

NODES = 20
OPTIONS = [
    {},
    {"coefficients": "eq12"},
    {"act": None},
    {"bias": False},
    {"add_self_loops": False},
    {"heads": 2, "negative_slope": 0.5},
]


def _graph(**options):
    return Graph.from_edge_index(random_edges(NODES, 60), NODES, **options)


def _stack(dtype=torch.float64, sizes=(5, 6, 2), **options):
    torch.manual_seed(0)
    return LMGCStack(*sizes, **options).to(dtype)


def _one_by_one(stack, x, graph):
    for conv in stack.convolutions():
        x = conv(x, graph)
        x = F.gelu(x) if stack.act else x
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(5, 6, 1), (5, 6, 2), (40, 36, 3)], ids=str)
@pytest.mark.parametrize("table", [False, True])
def test_same_as_one_by_one(dtype, sizes, table):
    stack, graph = _stack(dtype, sizes), _graph()
    x = torch.randn(3 if table else NODES, sizes[0], dtype=dtype, requires_grad=True)
    index = torch.arange(NODES) % 3 if table else None
    inputs = [x, *stack.parameters()]

    def derivatives(out):
        plain = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        by_columns = torch.autograd.grad((out.t() * torch.arange(NODES, dtype=dtype)).sum(), inputs, retain_graph=True)
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)
        return [*plain, *by_columns, *first, *second]

    found = stack(x, graph, index)
    wanted = _one_by_one(stack, x[index] if table else x, graph)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    for one, other in zip([found, *derivatives(found)], [wanted, *derivatives(wanted)], strict=True):
        scale = other.abs().max().clamp(min=1)
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("between", [{}, {"gain": 0.5}, {"jumping_knowledge": True}], ids=str)
def test_without_gradients_the_same_bits(dtype, table, between):
    layers = torch.nn.ModuleList(_stack(dtype, (6, 6, 3)).convolutions())
    x = torch.randn(3 if table else NODES, 6, dtype=dtype)
    index = torch.arange(NODES) % 3 if table else None

    def run():
        return stacked(layers, x, _graph(), index, **between)

    wanted = run()
    with torch.no_grad():
        found = [run()]
    with torch.inference_mode():
        found.append(run().clone())
    layers.requires_grad_(False)
    found.append(run())
    assert wanted.requires_grad
    assert not any(out.requires_grad for out in found)
    assert all(torch.equal(out, wanted) for out in found)
    x.requires_grad_()  # features that are learnt, with weights that are not
    assert run().requires_grad


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("table", [False, True])
def test_options(options, table):
    stack, graph = _stack(**options), _graph()
    x = torch.randn(4 if table else NODES, 5, dtype=torch.float64)  # the last row of the table belongs to no node
    index = torch.arange(NODES) % 3 if table else None
    wanted = _one_by_one(stack, x if index is None else x[index], graph)
    torch.testing.assert_close(stack(x, graph, index), wanted)
    torch.testing.assert_close(stack(x, random_edges(NODES, 60), index), wanted)


def test_starts_as_the_same_layers_do():
    for name, kind in (("lmgc", LMGC), ("eq12", Eq12)):
        stack = _stack(torch.float32, coefficients=name)
        assert stack.kind is kind
        after = torch.rand(1)
        torch.manual_seed(0)
        layers = [LMGConv(5, 6, coefficients=name), LMGConv(6, 6, coefficients=name)]
        assert torch.equal(after, torch.rand(1))
        for number, layer in enumerate(layers):
            own = layer.coefficients
            held = {"weight": layer.lin.weight, "att": own.att, "offset": own.offset, "bias": layer.bias}
            for part, value in held.items():
                found = getattr(stack, f"{part}_{number}")
                assert (found is None) == (value is None)
                assert value is None or torch.equal(found, value)


def test_reset_and_views_share_the_parameters():
    stack = _stack()
    stack = stack.float()
    before = {name: value.clone() for name, value in stack.state_dict().items()}
    with torch.no_grad():
        for conv in stack.convolutions():
            conv.lin.weight.zero_()
    assert not stack.weight_0.any()
    assert not stack.weight_1.any()
    torch.manual_seed(0)
    stack.reset_parameters()
    assert stack.weight_1.abs().max() > 0
    again = _stack(torch.float32)
    torch.manual_seed(0)
    again.reset_parameters()
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in stack.state_dict().items())
    assert before.keys() == stack.state_dict().keys()


@pytest.mark.kernels
def test_it_is_one_function():
    found = _stack()(torch.randn(NODES, 5, dtype=torch.float64), _graph())
    assert type(found.grad_fn).__name__ == "LayersBackward"
    assert not [node for node, _ in found.grad_fn.next_functions if "Layers" in type(node).__name__]


@pytest.mark.parametrize("index", [None, torch.arange(NODES) % 3])
def test_frozen_layers_have_no_gradients(index):
    stack, graph = _stack(), _graph()
    x = torch.randn(NODES if index is None else 3, 5, dtype=torch.float64)
    frozen = [name for name, _ in stack.named_parameters() if name.endswith("_0") or name == "bias_1"]
    for name in frozen:
        stack.get_parameter(name).requires_grad_(False)
    stack(x, graph, index).sum().backward()
    assert all(stack.get_parameter(name).grad is None for name in frozen)
    found = stack.weight_1.grad.clone()
    stack.zero_grad()
    _one_by_one(stack, x if index is None else x[index], graph).sum().backward()
    torch.testing.assert_close(found, stack.weight_1.grad)


@pytest.mark.parametrize("table", [False, True])
def test_calibrate(table):
    stack, graph = _stack(sizes=(5, 6, 4)), _graph()
    x, index = torch.randn(NODES, 5, dtype=torch.float64), torch.arange(NODES) % 3
    given = (x[:3], graph, index) if table else (x, graph)
    factors = calibrate(stack, *given)
    assert list(factors) == [".0", ".1", ".2", ".3"]
    for conv, (h, own) in stack.one_by_one(*given):
        assert conv.linear(h, own).square().mean().sqrt().item() == pytest.approx(1, rel=0.01)
    assert all(abs(factor - 1) < 1e-3 for factor in calibrate(stack, *given).values())
    with pytest.raises(ValueError, match="expected one with LMGConv layers"):
        calibrate(stack, *given, only=GCN)


def test_replaced_parameters_that_do_not_fit_are_named():
    graph, x = _graph(), torch.randn(NODES, 5, dtype=torch.float64)
    for name, shape in (("weight", (3, 6)), ("att", (2, 3)), ("offset", (3,)), ("bias", (1,))):
        stack = _stack()
        setattr(stack, f"{name}_1", torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)))
        with pytest.raises(ValueError, match=f"{name}.*: expected"):
            stack(x, graph)
    stack = _stack()
    stack.att_1.data = stack.att_1.data.float()
    with pytest.raises(TypeError, match=r"att: expected torch.float64"):
        stack(x, graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "layers: expected a whole number of at least 1, got 0"),
        ({"channels": -1}, "channels"),
        ({"in_channels": True}, "in_channels"),
        ({"heads": 0}, "heads"),
        ({"coefficients": "gat"}, "coefficients: expected 'lmgc' or 'eq12', got 'gat'"),
        ({"act": "relu"}, "act: expected 'gelu' or None, got 'relu'"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        LMGCStack(**{"in_channels": 5, "channels": 6, "layers": 2} | options)


@pytest.mark.parametrize(
    ("x", "index", "error", "message"),
    [
        (torch.randn(NODES, 4).double(), None, ValueError, r"x: expected shape \[N, 5\]"),
        (torch.randn(NODES, 5), None, TypeError, "x: expected torch.float64"),
        (torch.randn(NODES + 1, 5).double(), None, ValueError, "edge_index: expected a Graph on"),
        (torch.randn(3, 5).double(), torch.zeros(NODES), TypeError, r"index: expected int64 of shape \[N\], got"),
        (torch.randn(3, 5).double(), torch.zeros(NODES, 1).long(), TypeError, "index: expected int64"),
        (torch.randn(3, 5).double(), [0] * NODES, TypeError, "index: expected int64 .* got list"),
        (torch.randn(3, 5).double(), torch.full((NODES,), 3), IndexError, "index"),
        (torch.randn(3, 5).double(), torch.full((NODES,), -1), IndexError, "index"),
        (torch.randn(3, 5).double(), torch.zeros(NODES, device="meta").long(), ValueError, "index: .*device"),
    ],
)
def test_what_does_not_fit_is_named(x, index, error, message):
    with pytest.raises(error, match=message):
        _stack()(x, _graph(), index)


def test_weights_of_edges_are_not_ignored():
    graph = _graph(edge_attr=torch.rand(60))
    with pytest.raises(ValueError, match="edge_index: expected a graph without weights"):
        _stack()(torch.randn(NODES, 5, dtype=torch.float64), graph)


@pytest.mark.parametrize("table", [False, True])
def test_no_graph_break(table):
    stack, graph = _stack(torch.float32), _graph(add_self_loops=True)
    x, index = torch.randn(3 if table else NODES, 5), torch.arange(NODES) % 3 if table else None
    compiled = torch.compile(lambda x: F.relu(stack(x, graph, index)), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), F.relu(stack(x, graph, index)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["lmgc", "gatv2"])
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("gain", [None, 0.4])
@pytest.mark.parametrize("jumping", [False, True])
@pytest.mark.parametrize("channels", [6, 36])
def test_stacked_is_the_layers_one_by_one(kind, table, gain, jumping, channels):
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(LMGConv(channels, channels, coefficients=kind) for _ in range(4)).double()
    graph = _graph()
    x = torch.randn(3 if table else NODES, channels, dtype=torch.float64, requires_grad=True)
    index = torch.arange(NODES) % 3 if table else None
    inputs = [x, *layers.parameters()]

    def one_by_one():
        h, outputs = x if index is None else x[index], []
        for layer in layers:
            out = F.gelu(layer(h, graph))
            h = out if gain is None else h + gain * out
            outputs.append(h)
        return torch.stack(outputs).amax(0) if jumping else h

    def derivatives(out):
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        plain = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        return [out, *plain, *torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)]

    found = derivatives(stacked(layers, x, graph, index, gain, jumping))
    for one, other in zip(found, derivatives(one_by_one()), strict=True):
        scale = other.abs().max().clamp(min=1)
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=1e-9)


def test_stacked_calls_layers_that_somebody_looks_at():
    layers, graph, seen = [LMGConv(6, 6), LMGConv(6, 6)], _graph(), []
    x = torch.randn(NODES, 6)
    before = stacked(layers, x, graph, gain=1.0)
    layers[1].register_forward_hook(lambda *given: seen.append(1))
    torch.testing.assert_close(stacked(layers, x, graph, gain=1.0), before, rtol=1e-4, atol=1e-5)
    assert seen


def test_residual_connections_need_as_many_channels():
    with pytest.raises(ValueError, match="gain: expected layers with as many channels as features"):
        stacked([LMGConv(6, 5)], torch.randn(NODES, 6), _graph(), gain=1.0)
