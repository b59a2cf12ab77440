"""Layers one after another as one function: the same as calling each, in values, gradients, hooks and errors."""

from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import GINLayer, LMGConv
from mimogc.nn.chaining import chain

NODES = 20


def _graph():
    return Graph.from_edge_index(random_edges(NODES, 60), NODES)


def _layers(dtype=torch.float64, widths=(5, 6, 7), **options):
    torch.manual_seed(0)
    return torch.nn.ModuleList(LMGConv(a, b, act="gelu", **options) for a, b in pairwise(widths)).to(dtype)


def _one_by_one(layers, x, graph):
    for layer in layers:
        x = layer(x, graph)
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("widths", [(5, 6), (5, 6, 7), (40, 36, 33, 5)], ids=str)
@pytest.mark.parametrize("table", [False, True])
def test_same_as_one_by_one(dtype, widths, table):
    layers, graph = _layers(dtype, widths), _graph()
    x = torch.randn(3 if table else NODES, widths[0], dtype=dtype, requires_grad=True)
    index = torch.arange(NODES) % 3 if table else None
    inputs = [x, *layers.parameters()]

    def derivatives(out):
        plain = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
        by_columns = torch.autograd.grad(
            (out.t() * torch.arange(NODES, dtype=dtype)).sum(), inputs, retain_graph=True
        )
        first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)
        return [*plain, *by_columns, *first, *second]

    found = chain(layers, x, graph, index)
    wanted = _one_by_one(layers, x[index] if table else x, graph)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    for one, other in zip([found, *derivatives(found)], [wanted, *derivatives(wanted)], strict=True):
        scale = other.abs().max().clamp(min=1)
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


@pytest.mark.kernels
def test_it_is_one_function():
    layers, x = _layers(), torch.randn(NODES, 5, dtype=torch.float64)
    found = chain(layers, x, _graph())
    assert type(found.grad_fn).__name__ == "LayersBackward"
    assert not [node for node, _ in found.grad_fn.next_functions if "Layers" in type(node).__name__]


@pytest.mark.parametrize("index", [None, torch.arange(NODES) % 3])
def test_frozen_layers_have_no_gradients(index):
    layers, graph = _layers(), _graph()
    x = torch.randn(NODES if index is None else 3, 5, dtype=torch.float64)
    layers[0].requires_grad_(False)
    layers[1].bias.requires_grad_(False)
    chain(layers, x, graph, index).sum().backward()
    assert all(weight.grad is None for weight in layers[0].parameters())
    assert layers[1].bias.grad is None
    found = layers[1].lin.weight.grad.clone()
    layers.zero_grad()
    _one_by_one(layers, x if index is None else x[index], graph).sum().backward()
    torch.testing.assert_close(found, layers[1].lin.weight.grad)


def test_hooks_see_their_layer():
    layers, x, graph = _layers(), torch.randn(NODES, 5, dtype=torch.float64), _graph()
    expected, seen = chain(layers, x, graph), []
    layers[1].register_forward_hook(lambda *arguments: seen.append(arguments))
    torch.testing.assert_close(chain(layers, x, graph), expected)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [LMGConv(5, 6), GINLayer(6, 7)],
        lambda: [LMGConv(5, 6, add_self_loops=False), LMGConv(6, 7)],
        lambda: [LMGConv(5, 6, coefficients="gat"), LMGConv(6, 7)],
        lambda: [LMGConv(5, 6, combine="mean"), LMGConv(6, 7)],
        lambda: [LMGConv(-1, 6), LMGConv(-1, 7)],
        lambda: [LMGConv(5, 6, bias=False), LMGConv(6, 7, heads=2, negative_slope=0.5)],
        list,
    ],
)
def test_layers_of_any_kind(layers):
    layers, x, graph = layers(), torch.randn(NODES, 5), _graph()
    found = chain(layers, x, graph)
    torch.testing.assert_close(found, _one_by_one(layers, x, graph), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "x", "index", "error", "message"),
    [
        (_layers(widths=(5, 6)), torch.randn(NODES, 4).double(), None, ValueError, r"x: expected shape \[N, 5\]"),
        (_layers(widths=(5, 6)), torch.randn(NODES, 5), None, TypeError, "x: expected torch.float64"),
        ([LMGConv(5, 6), LMGConv(7, 6)], torch.randn(NODES, 5), None, ValueError, r"x: expected shape \[N, 7\]"),
        ([LMGConv(5, 6), LMGConv(6, 6).double()], torch.randn(NODES, 5), None, TypeError, "x: expected torch.float64"),
        ([LMGConv(5, 6)], torch.randn(NODES + 1, 5), None, ValueError, "edge_index: expected a Graph on"),
        ([LMGConv(5, 6)], torch.randn(3, 5), torch.zeros(NODES), TypeError, "index: expected int64"),
        ([LMGConv(5, 6)], torch.randn(3, 5), torch.full((NODES,), 3), IndexError, "index"),
        ([LMGConv(5, 6)], torch.randn(3, 5), torch.zeros(NODES, device="meta").long(), ValueError, "index: .*device"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_named(layers, x, index, error, message):
    with pytest.raises(error, match=message):
        chain(layers, x, _graph(), index)


def test_no_graph_break():
    layers, graph = (
        _layers(torch.float32),
        Graph.from_edge_index(random_edges(NODES, 60), NODES, add_self_loops=True),
    )
    x = torch.randn(NODES, 5)
    compiled = torch.compile(lambda x: F.relu(chain(layers, x, graph)), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), F.relu(chain(layers, x, graph)), rtol=1e-4, atol=1e-4)
