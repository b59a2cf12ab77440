"""Edge features of gat and gatv2: the numbers of the map W_e applied to every edge, without its E·K·C results."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import LMGConv
from mimogc.ops import _backends, _functions, _operators, _plain, _thresholds

NODES, EDGES, K, C, D = 8, 90, 3, 5, 2


def _case(name, dtype=torch.float64):
    torch.manual_seed(0)
    layer = LMGConv(4, C, heads=K, coefficients=name, edge_dim=D, add_self_loops=False).to(dtype)
    features = torch.randn(EDGES, D, dtype=dtype, requires_grad=True)
    return layer, torch.randn(NODES, 4, dtype=dtype, requires_grad=True), features


def _results(layer, x, features):
    out = layer(x, Graph.from_edge_index(random_edges(NODES, EDGES), NODES, features))
    return [out, *torch.autograd.grad(out.square().sum(), [x, features, *layer.parameters()])]


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_the_map_is_called_where_somebody_looks_at_it(name):
    """The same numbers; a hook sees every edge, and what it changes counts."""
    layer, *given = _case(name)
    expected, seen = _results(layer, *given), []
    lin = layer.coefficients.lin_edge
    handle = lin.register_forward_hook(lambda module, inputs, out: seen.append(out.shape))
    torch.testing.assert_close(_results(layer, *given), expected)
    assert seen == [(EDGES, K * C)]
    handle.remove()
    lin.register_forward_hook(lambda module, inputs, out: 2 * out)
    assert not torch.allclose(_results(layer, *given)[0], expected[0])


class _Largest(TorchDispatchMode):
    """The largest number of floating numbers of anything that torch makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        found = [value for value in torch.utils._pytree.tree_leaves(out) if isinstance(value, torch.Tensor)]
        self.numbers = max([self.numbers, *(value.numel() for value in found if value.is_floating_point())])
        return out


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "plain torch"])
@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_nothing_of_e_k_c_exists(name, kernels, monkeypatch):
    layer, *given = _case(name)
    expected = _results(layer, *given)
    with _Largest() as seen:  # while somebody records, the specification computes
        _results(layer, *given)
    if name == "gatv2":
        assert seen.numbers >= EDGES * K * C
    monkeypatch.setattr(_thresholds, "PLAIN_NUMBERS", 4 * K * C)
    backend = _backends._of(torch.get_default_device().type, torch.float64) if kernels else _plain
    backend = backend or _plain  # MIMOGC_BACKEND=reference
    for module, function in ((_operators, "serving"), (_functions, "serving_gradients")):
        monkeypatch.setattr(module, function, lambda *given: backend)
    with _Largest() as seen:
        found = _results(layer, *given)
    assert seen.numbers <= max(EDGES * K, NODES * K * C)
    torch.testing.assert_close(found, expected)
