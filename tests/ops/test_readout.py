"""The end of a regressor as one function: equal to its parts, in values and in both derivatives."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from mimogc.ops import readout as module
from mimogc.ops import use_reference
from mimogc.ops.readout import readout


def _case(dtype=torch.float64, nodes=30, size=4, channels=13, hidden=7):
    h = torch.randn(nodes, channels, dtype=dtype, requires_grad=True)
    shapes = (hidden, channels), (hidden,), (1, hidden), (1,)
    weights = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    return h, torch.randint(size, (nodes,)), size, weights


def _plain(h, owner, size, weights):
    pooled = h.new_zeros(size, h.size(1)).index_add(0, owner, h)
    return F.linear(F.gelu(F.linear(pooled, *weights[:2])), *weights[2:]).squeeze(1)


def _derivatives(out, inputs):
    plain = torch.autograd.grad(out.square().sum(), inputs, retain_graph=True)
    first = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(grad.square().sum() for grad in first), inputs)
    return [out, *plain, *first, *second]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "sizes", [(30, 4, 13, 7), (0, 2, 5, 3), (5, 5, 1, 1), (200, 32, 58, 58), (9, 3, 8, 16)], ids=str
)
def test_same_as_its_parts(sizes, dtype):
    h, owner, size, weights = _case(dtype, *sizes)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    found = _derivatives(readout(h, owner, size, *weights), [h, *weights])
    wanted = _derivatives(_plain(h, owner, size, weights), [h, *weights])
    for one, other in zip(found, wanted, strict=True):
        scale = other.abs().max().clamp(min=1) if other.numel() else 1.0
        torch.testing.assert_close(one / scale, other / scale, rtol=0, atol=tolerance)


def test_strided_input():
    h, owner, size, weights = _case()
    spread = torch.stack([h, h], dim=-1)[..., 0]
    columns = weights[0].t().contiguous().t()
    out = readout(spread, torch.stack([owner, owner], dim=-1)[:, 0], size, columns, *weights[1:])
    for one, other in zip(
        _derivatives(out, [h, *weights]),
        _derivatives(_plain(h, owner, size, weights), [h, *weights]),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("needed", itertools.product([False, True], repeat=2))
def test_only_the_gradients_that_are_needed(needed):
    h, owner, size, weights = _case()
    for value, need in zip(weights[:2], needed, strict=True):
        value.requires_grad_(need)
    readout(h, owner, size, *weights).sum().backward()
    assert [value.grad is not None for value in (*weights[:2], h)] == [*needed, True]


@pytest.mark.kernels
def test_large_heads_are_torchs(monkeypatch):
    h, owner, size, weights = _case()
    assert type(readout(h, owner, size, *weights).grad_fn).__name__ == "ReadoutBackward"
    monkeypatch.setattr(module, "_LARGEST_WORK", 1)
    out = readout(h, owner, size, *weights)
    assert type(out.grad_fn).__name__ != "ReadoutBackward"
    torch.testing.assert_close(out, _plain(h, owner, size, weights))


@pytest.mark.kernels
@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_owner_that_is_no_graph_is_named(wrong):
    h, owner, size, weights = _case()
    owner[7] = wrong
    with pytest.raises(IndexError, match=rf"owner: expected graphs 0 to 3, got {wrong}"):
        readout(h, owner, size, *weights)
    with use_reference(), pytest.raises((IndexError, RuntimeError), match="out of"):
        readout(h, owner, size, *weights)
