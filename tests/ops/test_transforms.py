"""torch.func, many gradients at once, forward-mode derivatives and torch.compile: the values of plain torch."""

import copy
import math
import pickle

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.functional import hessian, jacobian

from graphs import random_edges
from mimogc import Graph
from mimogc.ops import lmgc, pair_scores, propagate, propagate_tanh, separable_alpha, sum_at_targets, use_reference

NODES, EDGES, K, C = 6, 14, 2, 3
SHAPES = {
    "alpha": (EDGES, K),
    "h": (NODES, K, C),
    "s": (NODES, K),
    "t": (NODES, K),
    "edge": (EDGES, K),
    "att": (K, C),
    "features": (EDGES, 4),
    "map": (K, C, 4),
    "x": (NODES, 4),
    "weight": (K * C, 4),
    "scores": (2 * K, K * C),
    "bias": (C,),
    "offset": (K,),
}
REST = {name: torch.sin(torch.arange(1.0, math.prod(shape) + 1).view(shape)).double() for name, shape in SHAPES.items()}


def _whole_layer(x, bias, graph):
    return lmgc(x, REST["weight"], REST["scores"], graph, 0.1, REST["edge"], bias, None, REST["offset"])


# The operators as functions of two of their arguments and of a graph; the rest is fixed.
OPERATORS = {
    "propagate": (("alpha", "h"), lambda a, h, graph: propagate(a, h, graph)),
    "apart": (("alpha", "h"), lambda a, h, graph: propagate(a, h, graph, "none")),
    "propagate_tanh": (("s", "h"), lambda s, h, graph: propagate_tanh(s, REST["t"], h, graph)),
    "edges": (("edge", "h"), lambda edge, h, graph: propagate_tanh(REST["s"], REST["t"], h, graph, edge)),
    "pair_scores": (("h", "att"), lambda h, att, graph: pair_scores(h, REST["h"], att, graph)),
    "features": (
        ("features", "map"),
        lambda edge, weight, graph: pair_scores(REST["h"], 2 * REST["h"], REST["att"], graph, 0.2, edge, weight),
    ),
    "separable_alpha": (("s", "t"), lambda s, t, graph: separable_alpha(s, t, REST["edge"], graph)),
    "sum_at_targets": (("edge", "s"), lambda edge, s, graph: sum_at_targets(edge, graph) * s),
    "lmgc": (("x", "weight"), lambda x, weight, graph: lmgc(x, weight, REST["scores"], graph, act="gelu")),
    "whole lmgc": (("x", "bias"), _whole_layer),
}


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request, monkeypatch):
    for name, value in REST.items():
        monkeypatch.setitem(REST, name, value.to(request.param))
    return request.param


@pytest.fixture(params=["graph", "edge_index"])
def edges(request):
    """A ready graph, and one that is made of its edges within the transformation."""
    given = random_edges(NODES, EDGES)
    graph = Graph.from_edge_index(given, NODES)
    return (lambda: graph) if request.param == "graph" else (lambda: Graph.from_edge_index(given, NODES))


@pytest.fixture(params=OPERATORS)
def case(request, dtype, edges):
    """A function of two tensors, the tensors, and the same function in plain torch."""
    names, operator = OPERATORS[request.param]

    def function(one, other):
        return operator(one, other, edges())

    def plain(one, other):
        with use_reference():
            return operator(one, other, edges())

    return function, plain, tuple(torch.randn(SHAPES[name], dtype=dtype) for name in names)


def _close(found, wanted):
    wanted = torch.utils._pytree.tree_leaves(wanted)
    for one, other in zip(torch.utils._pytree.tree_leaves(found), wanted, strict=True):
        tolerance = {"rtol": 1e-4, "atol": 1e-4} if other.dtype == torch.float32 else {}
        torch.testing.assert_close(one, other, **tolerance)
    assert any(bool(value.abs().max() > 1e-3) for value in wanted)


def test_jacobians_of_torch_func(case):
    function, plain, inputs = case
    wanted = jacobian(plain, inputs)
    _close(torch.func.jacrev(function, (0, 1))(*inputs), wanted)
    _close(torch.func.jacfwd(function, (0, 1))(*inputs), wanted)
    total = torch.func.grad(lambda *values: function(*values).square().sum(), (0, 1))(*inputs)
    leaves = [value.clone().requires_grad_() for value in inputs]
    _close(total, torch.autograd.grad(plain(*leaves).square().sum(), leaves))


def test_vmap_and_jvp(case):
    function, plain, inputs = case
    several = [torch.stack([value, 2 * value, -value]) for value in inputs]
    _close(torch.func.vmap(function)(*several), torch.stack([plain(*values) for values in zip(*several, strict=True)]))
    directions = tuple(torch.randn_like(value) for value in inputs)
    out, slope = torch.func.jvp(function, inputs, directions)
    jacobians = jacobian(plain, inputs)
    wanted = sum((part * way).flatten(out.dim()).sum(-1) for part, way in zip(jacobians, directions, strict=True))
    _close((out, slope), (plain(*inputs), wanted))
    with forward_ad.dual_level():
        dual = function(*(forward_ad.make_dual(*pair) for pair in zip(inputs, directions, strict=True)))
        _close(tuple(forward_ad.unpack_dual(dual)), (plain(*inputs), wanted))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_many_gradients_at_once(case):
    function, plain, inputs = case
    leaves = [value.clone().requires_grad_() for value in inputs]
    out = function(*leaves)
    several = torch.randn(4, *out.shape, dtype=out.dtype)
    found = torch.autograd.grad(out, leaves, several, is_grads_batched=True)
    wanted = [torch.autograd.grad(plain(*leaves), leaves, g) for g in several]
    _close(found, tuple(torch.stack(column) for column in zip(*wanted, strict=True)))
    _close(jacobian(function, inputs, vectorize=True), jacobian(plain, inputs))
    mapped = torch.func.vmap(lambda g: torch.autograd.grad(function(*leaves), leaves, g))(several)
    _close(mapped, found)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_second_derivatives_many_at_once(case):
    function, plain, inputs = case
    vectorized = hessian(lambda *values: function(*values).square().sum(), inputs, vectorize=True)
    _close(vectorized, hessian(lambda *values: plain(*values).square().sum(), inputs))


# Arguments that are one tensor, or that are computed from one another.
RELATED = {
    "one tensor": lambda h, graph: pair_scores(h, h, REST["att"], graph),
    "scores": lambda h, graph: propagate_tanh(h[:, :, 0], 2 * h[:, :, 0], h, graph),
    "features": lambda h, graph: propagate_tanh(h.sum(-1), h.sum(-1), h.sin(), graph),
    "weight": lambda h, graph: lmgc(h.flatten(1) @ h.flatten(1).t(), h.flatten(1).t(), REST["scores"], graph),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", RELATED)
def test_arguments_that_hang_together(name):
    graph, h = Graph.from_edge_index(random_edges(NODES, EDGES), NODES), REST["h"].clone()

    def function(h):
        return RELATED[name](h, graph)

    def plain(h):
        with use_reference():
            return RELATED[name](h, graph)

    _close(jacobian(function, h), jacobian(plain, h))
    _close(jacobian(function, h, vectorize=True), jacobian(plain, h))
    _close(jacobian(function, h, create_graph=True), jacobian(plain, h))
    for vectorize in (False, True):
        found = hessian(lambda h: function(h).square().sum(), h, vectorize=vectorize)
        _close(found, hessian(lambda h: plain(h).square().sum(), h))


def test_a_graph_made_within_a_transformation_is_a_plain_one():
    edges, made = random_edges(NODES, EDGES), []

    def function(x, edge_index):
        made.append(Graph.from_edge_index(edge_index, NODES, x[edge_index[0]], add_self_loops=True))
        return made[-1].edge_attr.sum()

    x = torch.randn(NODES)
    expected = Graph.from_edge_index(edges, NODES, x[edges[0]], add_self_loops=True)
    torch.func.grad(function)(x, edges)  # which wraps the edges, too
    assert torch.equal(made[0].edge_index, expected.edge_index)
    alpha = REST["alpha"][:1].expand(expected.num_edges, K)
    assert torch.equal(propagate(alpha, REST["h"], made[0]), propagate(alpha, REST["h"], expected))
    with pytest.raises(TypeError, match="edge_index: expected one graph, got a batch of them"):
        torch.func.vmap(lambda one: Graph.from_edge_index(one, NODES).src)(torch.stack([edges, edges]))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_a_copy_of_a_graph_in_use(copied):
    graph = Graph.from_edge_index(random_edges(NODES, EDGES), NODES)
    expected = propagate(REST["alpha"], REST["h"], graph)
    twin = copied(graph)
    assert torch.equal(propagate(REST["alpha"], REST["h"], twin), expected)
    graph.rowptr.share_memory_()  # its arrays, which are one piece of memory, move
    assert torch.equal(propagate(REST["alpha"], REST["h"], graph), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", OPERATORS)
def test_compiled_for_any_size(name):
    names, operator = OPERATORS[name]
    torch._dynamo.reset()

    def function(one, other, edge_index, nodes):
        return operator(one, other, Graph.from_edge_index(edge_index, nodes))

    compiled = torch.compile(function, dynamic=True, fullgraph=True, backend="aot_eager")
    inputs = [torch.randn(SHAPES[each], dtype=torch.float64, requires_grad=True) for each in names]
    edges = random_edges(NODES, EDGES)
    found, wanted = compiled(*inputs, edges, NODES), function(*inputs, edges, NODES)
    _close(found, wanted)
    _close(torch.autograd.grad(found.square().sum(), inputs), torch.autograd.grad(wanted.square().sum(), inputs))
