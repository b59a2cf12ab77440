"""torch.func over a layer: the same derivatives as autograd's, and the graph is as good as before."""

import pytest
import torch

from graphs import random_edges
from mimogc import Graph
from mimogc.nn import LMGConv


@pytest.mark.parametrize("method", ["lmgc", "lmgc-sym", "gcn", "gat", "gatv2", "fagcn", "acm", "gated", "sheaf"])
def test_transformations_agree_with_autograd(method):
    torch.manual_seed(0)
    graph, x = Graph.from_edge_index(random_edges(7, 20), 7), torch.randn(7, 4, dtype=torch.float64)
    layer = LMGConv(4, 4, coefficients=method).double()
    jacobian = torch.func.jacrev(lambda x: layer(x, graph))(x)  # the first look at the graph is a transformed one
    before = layer(x, graph)
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(lambda x: layer(x, graph), x))
    direction = torch.randn_like(x)
    out, slope = torch.func.jvp(lambda x: layer(x, graph), (x,), (direction,))
    torch.testing.assert_close(out, before)
    torch.testing.assert_close(slope, torch.tensordot(jacobian, direction, dims=2))
    several = torch.stack([x, 2 * x])
    mapped = torch.func.vmap(lambda x: layer(x, graph))(several)
    torch.testing.assert_close(mapped, torch.stack([layer(x, graph), layer(2 * x, graph)]))
