"""Tensors that are not what they seem: the operators give what plain torch gives, or name what is wrong."""

import pytest
import torch

from graphs import random_edges
from mimogc import Graph, ops
from mimogc.nn import LMGConv, stacked
from mimogc.ops import use_reference

NODES, EDGES = 20, 60
GRAPH = Graph.from_edge_index(random_edges(NODES, EDGES), NODES)


def _weights(width=40, heads=2, channels=40):
    torch.manual_seed(0)
    weight = torch.randn(heads * channels, width) / width**0.5
    return weight, torch.randn(2 * heads, heads * channels) / channels**0.5


def _typed(kinds, x):
    weight, att = _weights()
    own = ops.TypedWeights(weight, att, torch.randn(3, 2), torch.randn(6, 40))
    return ops.typed_layer(ops.TypedGate(), x, own, GRAPH, kinds)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: ops.lmgc(x, *_weights(), GRAPH),
        lambda x: ops.propagate(torch.ones(EDGES, 2), x.view(NODES, 2, 20), GRAPH),
        lambda x: ops.pair_scores(x.view(NODES, 2, 20), torch.ones(NODES, 2, 20), torch.ones(2, 20), GRAPH),
        lambda x: ops.edge_softmax(x.flatten()[: 2 * EDGES].view(EDGES, 2), GRAPH),
        lambda x: ops.activate(x)[0],
        lambda x: ops.lmgc(x.new_ones(NODES, 40), *_weights(), GRAPH, bias=x[0]),
    ],
    ids=["lmgc", "propagate", "pair_scores", "edge_softmax", "activate", "bias"],
)
def test_negated_views(compute):
    x = torch.randn(NODES, 40)
    torch.testing.assert_close(compute(torch._neg_view(x)), compute(-x))


def test_negated_gradients():
    x = torch.randn(NODES, 40, requires_grad=True)
    out, g = ops.lmgc(x, *_weights(), GRAPH), torch.randn(NODES, 40)
    found, expected = (torch.autograd.grad(out, x, each, retain_graph=True)[0] for each in (torch._neg_view(g), -g))
    torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_traced_operator_computes():
    weight, att = _weights()
    program = torch.jit.trace(lambda x: ops.lmgc(x, weight, att, GRAPH), torch.randn(NODES, 40), check_trace=False)
    other = torch.randn(NODES, 40)
    torch.testing.assert_close(program(other), ops.lmgc(other, weight, att, GRAPH))


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["x", "weight", "att", "offset", "bias"])
def test_freed_memory_is_refused(name):
    weight, att = _weights()
    given = {"x": torch.randn(NODES, 40), "weight": weight, "att": att, "offset": torch.ones(2), "bias": torch.ones(40)}
    given[name].untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"expected tensors with memory, got one of shape .* that was freed"):
        ops.lmgc(graph=GRAPH, **given)


@pytest.mark.parametrize("name", ["alpha", "h"])
def test_nothing_is_named(name):
    given = {"alpha": torch.randn(EDGES, 2), "h": torch.randn(NODES, 2, 3), name: None}
    with pytest.raises(TypeError, match=f"{name}: expected a tensor, got NoneType"):
        ops.propagate(graph=GRAPH, **given)


@pytest.mark.parametrize("name", ["weight", "att"])
def test_no_weights_are_named(name):
    weight, att = _weights()
    given = {"weight": weight, "att": att, name: None}
    with pytest.raises(TypeError, match=f"{name}: expected a tensor, got NoneType"):
        ops.lmgc(torch.randn(NODES, 40), graph=GRAPH, **given)


@pytest.mark.kernels
def test_types_that_numpy_changes_are_seen():
    kinds, x = torch.randint(3, (EDGES,)), torch.randn(NODES, 40, requires_grad=True)
    out = _typed(kinds, x)
    kinds.numpy()[:] = 10**9  # of which autograd knows nothing
    with pytest.raises(IndexError, match="kinds: expected types 0 to 2, got 1000000000"):
        out.sum().backward()


@pytest.mark.parametrize("widths", [(8, 200), (8, 6), (500, 2)], ids=str)
@pytest.mark.parametrize("gradients", [False, True])
def test_layers_of_other_widths_have_no_maximum(widths, gradients):
    first, second = widths
    layers = [LMGConv(8, first, heads=1), LMGConv(first, second, heads=1)]
    with (
        torch.set_grad_enabled(gradients),
        pytest.raises((ValueError, RuntimeError), match=r"channels as each|size of"),
    ):
        stacked(layers, torch.randn(NODES, 8), GRAPH, jumping_knowledge=True)


def test_a_residual_connection_needs_one_width():
    layers = [LMGConv(8, 8), LMGConv(8, 6)]
    with pytest.raises(ValueError, match="gain: expected layers with as many channels as features"):
        stacked(layers, torch.randn(NODES, 8), GRAPH, gain=1.0)


@pytest.mark.parametrize("kind", ["lmgc", "gatv2", "activate"])
def test_hooks_may_give_saved_tensors_back_in_another_order(kind):
    layer = LMGConv(8, 8, coefficients="lmgc" if kind == "activate" else kind)
    inputs = [torch.randn(8, NODES).t().requires_grad_(), *layer.parameters()]

    def gradients(pack):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            out = stacked([layer], inputs[0], GRAPH, gain=0.5) if kind == "activate" else layer(inputs[0], GRAPH)
        return torch.autograd.grad(out.square().sum(), inputs)

    def rows(value):
        return value.detach().clone(memory_format=torch.contiguous_format)

    def columns(value):
        return value.detach().t().contiguous().t() if value.dim() == 2 else value.detach()

    with use_reference():
        expected = gradients(lambda value: value)
    for pack in (rows, columns):
        for one, other in zip(gradients(pack), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
