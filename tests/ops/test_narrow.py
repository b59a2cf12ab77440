"""The kernels of the narrow order by themselves, against the formula: long and empty rows, few targets, threads."""

import pytest
import torch
from torch.nn import functional as F

from graphs import random_edges
from mimogc import Graph
from mimogc.ops import _native_layers
from mimogc.ops._native_layers import Weights

pytestmark = pytest.mark.kernels
NODES, FEW, FEATURES = 230, 150, 40


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def _graph(kind):
    """Rows of several chunks of edges, rows and columns without any, several blocks of rows for each thread."""
    hub = torch.stack([torch.randint(0, NODES, (300,)), torch.full((300,), 7)])
    edges = torch.cat([random_edges(FEW, 2000), hub, hub.flip(0), torch.tensor([[NODES - 1], [3]])], dim=1)
    if kind == "whole":
        return Graph.from_edge_index(edges, NODES)
    return Graph.from_edge_index(edges[:, edges[1] < FEW], (NODES, FEW))  # the other sources are nodes of others


def _formula(x, own, graph, slope, gelu):
    heads = own.att.size(0) // 2
    h = x @ own.weight.t()
    s, t = (F.leaky_relu(h, slope) @ own.att.t()).split(heads, dim=1)
    score = s[graph.dst] + t[graph.src]
    score = score if own.offset is None else score + own.offset
    alpha = (score if own.edge is None else score + own.edge).tanh()
    messages = (alpha.unsqueeze(2) * h.view(-1, heads, h.size(1) // heads)[graph.src]).sum(1)
    out = x.new_zeros(graph.num_dst, messages.size(1)).index_add(0, graph.dst, messages)
    out = out if own.bias is None else out + own.bias
    return F.gelu(out) if gelu else out


@pytest.mark.parametrize("kind", ["whole", "part"])
@pytest.mark.parametrize(
    ("heads", "channels", "all_of_it"), [(4, 36, True), (3, 64, False), (5, 33, True), (4, 33, False)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_every_gradient(kind, heads, channels, all_of_it, dtype, threads):
    graph, slope = _graph(kind), 0.1

    def new(*shape, scale=1.0):
        return (torch.randn(*shape, dtype=dtype) * scale).requires_grad_()

    width = heads * channels
    x, weight = new(NODES, FEATURES), new(width, FEATURES, scale=FEATURES**-0.5)
    offset, edge, bias = (new(heads), new(graph.num_edges, heads), new(channels)) if all_of_it else (None, None, None)
    own = Weights(weight, new(2 * heads, width, scale=width**-0.5), offset, edge, bias)
    wanted = _formula(x, own, graph, slope, gelu=all_of_it)
    plain = Weights(*(None if value is None else value.detach() for value in own))
    out, st, derivative = _native_layers.narrow_layer(x.detach(), plain, slope, graph._struct, all_of_it)
    tolerance = {"rtol": 1e-4, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(out, wanted.detach(), **tolerance)

    g = torch.randn(wanted.shape, dtype=dtype)
    inputs = [value for value in (x, *own) if value is not None]
    expected = torch.autograd.grad(wanted, inputs, g)
    needs = tuple(value is not None for value in (x, *own))
    found = _native_layers.narrow_layer_grad(x.detach(), plain, slope, st, derivative, g, graph._struct, needs)
    assert found.h is None
    given = {field: getattr(found, field) for field in ("x", *Weights._fields)}
    names = [name for name, value in given.items() if value is not None]
    for name, other in zip(names, expected, strict=True):
        one = given[name]
        scale = other.abs().max().clamp(min=1)
        torch.testing.assert_close(
            one / scale, other / scale, **tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_only_what_is_needed(threads):
    graph = _graph("whole")
    x, weight = torch.randn(NODES, FEATURES), torch.randn(4 * 36, FEATURES) / 6
    own = Weights(weight, torch.randn(8, 4 * 36) / 12, torch.randn(4), None, torch.randn(36))
    out, st, _ = _native_layers.narrow_layer(x, own, 0.2, graph._struct, False)
    everything = _native_layers.narrow_layer_grad(
        x, own, 0.2, st, None, out, graph._struct, (True, True, True, True, False, True)
    )
    for field, needs in {
        "x": (True, False, False, False, False, False),
        "weight": (False, True, False, False, False, False),
        "offset": (False, False, False, True, False, False),
        "bias": (False, False, False, False, False, True),
    }.items():
        some = _native_layers.narrow_layer_grad(x, own, 0.2, st, None, out, graph._struct, needs)
        torch.testing.assert_close(getattr(some, field), getattr(everything, field))
        torch.testing.assert_close(some.att, everything.att)
