"""A layer of every width against its parts in plain torch: channels that fill no vector, scores that fill no tile."""

import pytest
import torch
from torch.nn import functional as F

from mimogc import Graph
from mimogc.ops import lmgc, reference


def by_parts(x, weight, att, graph, bias, offset):
    heads = att.size(0) // 2
    h = F.linear(x, weight)
    s, t = (F.leaky_relu(h, 0.2) @ att.t()).split(heads, dim=1)
    alpha = torch.tanh(offset + s[graph.dst] + t[graph.src])
    return F.gelu(reference.propagate(alpha, h.unflatten(1, (heads, -1)), graph, "sum") + bias)


@pytest.mark.parametrize("heads", [1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_width_has_the_values_and_gradients_of_its_parts(heads, dtype):
    torch.manual_seed(heads)
    graph = Graph.from_edge_index(torch.randint(0, 51, (2, 150)), 51).with_self_loops()
    for channels in (1, 4, 5, 8, 13, 16, 17, 33, 45):

        def made(*shape, scale=1.0):
            return (scale * torch.randn(*shape, dtype=torch.float64)).requires_grad_()

        x, bias, offset = made(51, 40), made(channels), made(heads)
        weight, att = made(heads * channels, 40, scale=0.2), made(2 * heads, heads * channels, scale=0.1)
        g = torch.randn(51, channels, dtype=torch.float64)
        expected = by_parts(x, weight, att, graph, bias, offset)
        wanted = torch.autograd.grad(expected, (x, weight, att, bias, offset), g)
        own = [value.detach().to(dtype).requires_grad_() for value in (x, weight, att, bias, offset)]
        out = lmgc(own[0], own[1], own[2], graph, 0.2, None, own[3], "gelu", own[4])
        found = torch.autograd.grad(out, own, g.to(dtype))
        tolerance = 2e-5 if dtype == torch.float32 else 1e-12
        for value, right in zip((out, *found), (expected, *wanted), strict=True):
            assert (value.double() - right).abs().max() < tolerance * right.abs().max(), (channels, value.shape)


@pytest.mark.parametrize("place", [0, 30, 44])
def test_infinity_is_counted_once(place):
    """Where the last vector overlaps the one before, what is there may not be multiplied by zero."""
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2)
    weight, att = torch.zeros(45, 32), torch.zeros(2, 45)
    weight[place, 0], att[1, place] = 1e30, 1.0
    x = torch.zeros(2, 32)
    x[0, 0] = 1e30  # so that h is infinite in one channel, and nowhere NaN
    out = lmgc(x, weight, att, graph)
    assert out[1, place] == torch.inf  # tanh(inf) · inf
