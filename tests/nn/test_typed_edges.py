"""Layers on typed edges: what `BondConv` hands to the kernels equals what its parts give, and misfits are refused."""

import pytest
import torch
from torch.nn import Parameter

from graphs import random_edges
from mimogc import Graph
from mimogc.models import BondConv, TypedGraph
from mimogc.models.typed_stack import stacked_types

NODES, TYPES, WIDTH = 40, 3, 40
METHODS = ["lmgc", "eq12", "gatv2", "fagcn"]


def _typed(graph, dtype=torch.float32):
    return TypedGraph.of(graph, torch.randint(0, TYPES, (graph.num_edges,)), TYPES, dtype)


def _layer(width, name, **options):
    return BondConv(width, width, TYPES, 1 if name == "fagcn" else 2, name, **options)


def _graphs():
    torch.manual_seed(0)
    directed = random_edges(NODES - 5, 160)  # the last nodes are isolated
    directed[1] = directed[1] // 2 * 2  # and those of odd number have edges out of them only
    hub = torch.stack([torch.arange(NODES), torch.zeros(NODES, dtype=torch.int64)])
    plain = Graph.from_edge_index(directed, NODES)
    return {
        "directed": plain,
        "hub": Graph.from_edge_index(torch.cat([directed, hub, hub], 1), NODES),
        "extra loops": plain.with_identity(),
        "self-loops": plain.with_self_loops(),
        "no edges": Graph.from_edge_index(directed[:, :0], NODES),
    }


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", list(_graphs()))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_the_sum_of_its_parts(name, kind, dtype):
    graph = _typed(_graphs()[kind], dtype)
    layer = _layer(WIDTH, name, add_self_loops=False).to(dtype)
    x = torch.randn(NODES, WIDTH, dtype=dtype, requires_grad=True)
    both = layer(x, graph), layer.linear(x, graph) + layer.bias
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)
    sign = torch.randn_like(both[0])
    learnt = [x, *layer.parameters()]
    found, wanted = (torch.autograd.grad((out * sign).sum(), learnt, allow_unused=True) for out in both)
    for one, other in zip(found, wanted, strict=True):
        other = torch.zeros_like(one) if other is None else other
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_hub_of_more_edges_than_float16_counts():
    edges = torch.stack([torch.arange(1, 70_010), torch.zeros(70_009, dtype=torch.int64)])
    edges = torch.cat([edges, edges.flip(0)], 1)
    graph = Graph.from_edge_index(edges, 70_010)
    typed = TypedGraph.of(graph, torch.zeros(graph.num_edges, dtype=torch.int64), 1, torch.float16)
    layer = BondConv(4, 4, 1, 1, "fagcn", add_self_loops=False).half()
    out = layer(torch.ones(70_010, 4, dtype=torch.float16), typed)[0]
    assert out.abs().min() > 0


@pytest.mark.parametrize("part", ["att_src", "att_dst", "lin_edge"])
def test_scores_that_are_watched_are_called(part):
    graph = _typed(_graphs()["directed"])
    layer = _layer(WIDTH, "fagcn", add_self_loops=False)
    x = torch.randn(NODES, WIDTH)
    before = layer(x, graph)
    getattr(layer.coefficients, part).register_forward_hook(lambda module, given, out: 2 * out)
    assert not torch.allclose(layer(x, graph), before)
    stack = stacked_types([layer], [torch.nn.Identity()], x, graph, None)
    assert stack is None


@pytest.mark.parametrize("name", METHODS)
def test_what_was_kept_in_inference_mode_serves_training(name):
    graph = _typed(_graphs()["directed"])
    layer = _layer(WIDTH, name, add_self_loops=False)
    x = torch.randn(NODES, WIDTH)
    with torch.inference_mode():
        first = layer(x, graph)
    out = layer(x, graph)
    out.sum().backward()
    assert torch.equal(out.detach(), first.clone())
    assert layer.conv.lin.weight.grad is not None


@pytest.mark.parametrize("name", METHODS)
def test_layers_one_by_one_give_the_same(name):
    graph = _typed(_graphs()["directed"])
    layers = [_layer(WIDTH, name, add_self_loops=False) for _ in range(3)]
    norms = [torch.nn.BatchNorm1d(WIDTH) for _ in layers]
    x = torch.randn(NODES, WIDTH)
    out = stacked_types(layers, norms, x, graph, 0.5)
    assert out is not None
    for layer, norm in zip(layers, norms, strict=True):
        x = x + 0.5 * torch.nn.functional.gelu(norm(layer(x, graph)))
    torch.testing.assert_close(out, x, rtol=1e-4, atol=1e-5)


def _replace(name, value):
    def change(layer):
        *path, last = name.split(".")
        module = layer.coefficients.get_submodule(".".join(path))
        setattr(module, last, Parameter(value) if value is not None else None)

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gatv2", _replace("att", torch.ones(2, 2, WIDTH))),
        ("gatv2", _replace("att", torch.ones(0, 2, WIDTH))),
        ("gatv2", _replace("att", None)),
        ("fagcn", _replace("att_src.weight", torch.ones(2, WIDTH))),
        ("fagcn", _replace("att_src.weight", torch.ones(1, WIDTH + 1))),
        ("fagcn", _replace("att_src.weight", torch.ones(WIDTH))),
        ("fagcn", _replace("att_src.weight", torch.ones(1, WIDTH, dtype=torch.float16))),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_alone_and_in_a_stack(name, change):
    graph = _typed(_graphs()["directed"])
    layer = _layer(WIDTH, name, add_self_loops=False)
    change(layer)
    x = torch.randn(NODES, WIDTH)
    assert stacked_types([layer], [torch.nn.Identity()], x, graph, None) is None
    with pytest.raises((TypeError, ValueError, RuntimeError), match=r"expected|shape|[Ss]ize|dtype"):
        layer(x, graph)


@pytest.mark.parametrize("name", ["lmgc", "gatv2", "fagcn"])
def test_compiles_without_a_graph_break(name):
    graph = _typed(_graphs()["self-loops"])
    layer = _layer(8, name)
    x = torch.randn(NODES, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, graph), layer(x, graph), rtol=1e-4, atol=1e-5)
