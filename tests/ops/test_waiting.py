"""What waits for a GPU: counted on the CPU by the operations that read a number or whose size is a number."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphs import random_edges
from mimogc import Graph
from mimogc._sorting import sort_reference
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import BY_NAME
from mimogc.ops import use_reference

# Of torch's operations those that have to know numbers which are on the device.
WAITING = {"_local_scalar_dense", "nonzero", "bincount", "unique", "_unique2", "equal", "masked_select"}


class _Waits(TorchDispatchMode):
    """The names of operations for which a GPU would be waited for."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.split("::")[1]
        indexed = name.startswith("index") and any(
            isinstance(value, torch.Tensor) and value.dtype == torch.bool
            for value in torch.utils._pytree.tree_leaves(args[1:2])
        )
        sizeless = name == "repeat_interleave" and (kwargs or {}).get("output_size") is None
        if name in WAITING or indexed or sizeless:
            self.seen.append(name)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Edges are sorted in plain torch."""
    monkeypatch.setattr("mimogc._sorting.library", lambda: None)


@pytest.mark.parametrize("loops", [False, True])
def test_sorting_waits_once(loops):
    src, dst = random_edges(9, 40)
    with _Waits() as waits:
        sort_reference(src, dst, 9, 9, loops)
    # One list of two numbers, which the CPU reads one by one and a GPU sends at once.
    assert waits.seen in ([], ["_local_scalar_dense"] * 2)


FORMS = ("none", "weights", "learnt weights")
CASES = [(name, form) for name in BY_NAME for form in FORMS[: 3 if BY_NAME[name].weighted else 1]]


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize(("name", "form"), CASES)
def test_layers_on_a_graph_do_not_wait(name, form, loops, as_on_a_gpu):
    layer, x = LMGConv(4, 4, coefficients=name, add_self_loops=loops), torch.randn(9, 4)
    graph = Graph.from_edge_index(random_edges(9, 40), 9, torch.rand(40) if form == "weights" else None)
    learnt = {"edge_weight": torch.rand(40, requires_grad=True)} if form == "learnt weights" else {}
    with use_reference():
        expected = layer(x, graph, **learnt)
    with use_reference(), _Waits() as waits:
        found = layer(x, graph, **learnt)
        found.sum().backward()
    assert waits.seen == []
    torch.testing.assert_close(found, expected)


def test_the_weighted_graph_is_kept_until_the_weights_change(as_on_a_gpu):
    weight = torch.rand(40)
    graph = Graph.from_edge_index(random_edges(9, 40), 9, weight)
    kept = graph.weighted(graph.edge_attr, True)
    assert graph.weighted(graph.edge_attr, True) is kept
    graph.edge_attr.mul_(2)
    again = graph.weighted(graph.edge_attr, True)
    given = kept.edge_attr[kept.src != kept.dst]
    torch.testing.assert_close(again.edge_attr[again.src != again.dst], 2 * given)
    learnt = torch.rand(40, requires_grad=True)
    graph.weighted(learnt, True).edge_attr.sum().backward()
    assert graph.weighted(learnt, True) is not graph.weighted(learnt, True)
    assert set(learnt.grad.tolist()) <= {0.0, 1.0}  # of several loops of a node the last one counts


def test_weights_of_no_edges():
    graph = Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.long), 3, torch.zeros(0))
    found = graph.weighted(graph.edge_attr, True)
    assert found.edge_index.tolist() == [[0, 1, 2]] * 2
    assert found.edge_attr.tolist() == [1.0] * 3
