"""Plain torch in parts of the edges: the same numbers and gradients as the specification, in less memory."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from graphs import random_edges
from mimogc import Graph
from mimogc.ops import _functions, _plain, _thresholds, reference

NODES, EDGES, K, C = 9, 40, 3, 5
SHAPES = {
    "alpha": (EDGES, K),
    "h": (NODES, K, C),
    "s": (NODES, K),
    "t": (NODES, K),
    "edge": (EDGES, K),
    "target": (NODES, K, C),
    "att": (K, C),
    "features": (EDGES, 2),
    "weight": (K, C, 2),
}
# The names of what each takes, the function in parts, and the specification.
OPERATORS = {
    "sum": (
        ("alpha", "h"),
        lambda graph, *given: _functions.Propagate.apply(*given, graph, "sum", _plain),
        lambda graph, *given: reference.propagate(*given, graph, "sum"),
    ),
    "none": (
        ("alpha", "h"),
        lambda graph, *given: _functions.Propagate.apply(*given, graph, "none", _plain),
        lambda graph, *given: reference.propagate(*given, graph, "none"),
    ),
    "tanh": (
        ("s", "t", "h", "edge"),
        lambda graph, *given: _functions.PropagateTanh.apply(*given, graph, _plain),
        lambda graph, *given: reference.propagate_tanh(*given, graph),
    ),
    "pairs": (
        ("h", "target", "att"),
        lambda graph, *given: _functions.PairScores.apply(*given, None, None, graph, 0.3, _plain),
        lambda graph, *given: reference.pair_scores(*given, 0.3, graph),
    ),
    "pairs with features": (
        ("h", "target", "att", "features", "weight"),
        lambda graph, *given: _functions.PairScores.apply(*given, graph, 0.3, _plain),
        lambda graph, h, target, att, *edge: reference.pair_scores(h, target, att, 0.3, graph, *edge),
    ),
    "softmax": (
        ("alpha",),
        lambda graph, *given: _functions.Softmax.apply(*given, graph, _plain),
        lambda graph, *given: reference.softmax(*given, graph),
    ),
}


@pytest.fixture(params=[1, 4 * K * C, 10**6], ids="{} numbers".format)
def numbers(request, monkeypatch):
    """How many at a time: those of one edge, of a few, of all."""
    monkeypatch.setattr(_thresholds, "PLAIN_NUMBERS", request.param)
    # The gradients of a Function come from the backend that serves its tensors: here the one under test.
    monkeypatch.setattr(_functions, "serving_gradients", lambda *given: _plain)


@pytest.mark.parametrize("name", OPERATORS)
def test_any_number_at_a_time(name, numbers):
    graph = Graph.from_edge_index(random_edges(NODES, EDGES), NODES)
    names, in_parts, specification = OPERATORS[name]
    inputs = [torch.randn(SHAPES[each], dtype=torch.float64, requires_grad=True) for each in names]
    found, wanted = in_parts(graph, *inputs), specification(graph, *inputs)
    torch.testing.assert_close(found, wanted)
    weight = torch.randn_like(wanted)
    torch.testing.assert_close(torch.autograd.grad(found, inputs, weight), torch.autograd.grad(wanted, inputs, weight))
    assert gradcheck(lambda *given: in_parts(graph, *given), inputs, fast_mode=True)
    assert gradgradcheck(lambda *given: in_parts(graph, *given), inputs, fast_mode=True)


def test_a_large_graph_is_looked_at_once(monkeypatch):
    """One that does not keep the ends of its edges computes them once for all parts."""
    monkeypatch.setattr(_thresholds, "PLAIN_NUMBERS", K * C)
    monkeypatch.setattr("mimogc.graph.KEPT_EDGES", EDGES - 1)
    graph, looks = Graph.from_edge_index(random_edges(NODES, EDGES), NODES), []
    monkeypatch.setattr(
        torch,
        "repeat_interleave",
        lambda *given, f=torch.repeat_interleave, **more: looks.append(1) or f(*given, **more),
    )
    _plain.sum_heads(torch.ones(EDGES, K), torch.ones(NODES, K, C), graph, "sum")
    assert len(looks) == 1


class _Largest(TorchDispatchMode):
    """The largest number of elements of anything that torch makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for value in torch.utils._pytree.tree_leaves(out):
            if isinstance(value, torch.Tensor):
                self.numbers = max(self.numbers, value.numel())
        return out


@pytest.mark.parametrize("name", OPERATORS)
def test_nothing_of_e_k_c_exists(name, monkeypatch):
    monkeypatch.setattr(_thresholds, "PLAIN_NUMBERS", 4 * K * C)
    monkeypatch.setattr(_functions, "serving_gradients", lambda *given: _plain)
    graph = Graph.from_edge_index(random_edges(NODES, EDGES), NODES)
    names, in_parts, specification = OPERATORS[name]
    inputs = [torch.randn(SHAPES[each], requires_grad=True) for each in names]
    largest = {}
    for function in (in_parts, specification):
        with _Largest() as seen:
            function(graph, *inputs).sum().backward()
        largest[function] = seen.numbers
    assert largest[in_parts] <= max(EDGES * K, NODES * K * C)
    if name != "softmax":
        assert largest[specification] >= EDGES * K * C
