"""Adam on one vector: equal to torch's AdamW after torch's clipping, with the kernel and without."""

import contextlib

import pytest
import torch

from mimogc.ops import use_reference
from mimogc.ops.adam import Adam

SHAPES = [(3, 5), (), (0, 4), (70, 90), (17,), (3, 4096)]


def _weights(dtype, shapes=SHAPES):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def _adam(weights):
    return Adam(torch.cat([weight.flatten() for weight in weights]), [weight.numel() for weight in weights])


@pytest.mark.parametrize("backend", [contextlib.nullcontext, use_reference])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clip", [0.5, 1e9])
def test_same_as_torch(dtype, clip, backend):
    mine = _adam(_weights(dtype))
    weights = [weight.requires_grad_() for weight in _weights(dtype)]
    torchs = torch.optim.AdamW(weights, lr=0.01, weight_decay=0.0)
    for size in (1.0, 100.0, 1e-4, 0.0, 1.0):
        gradients = [size * torch.randn_like(weight) for weight in weights]
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(weights, clip)
        torchs.step()
        with backend():
            mine.step(gradients, 0.01, clip)
    expected = torch.cat([weight.detach().flatten() for weight in weights])
    torch.testing.assert_close(mine.vector, expected, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-14)


@pytest.mark.parametrize("backend", [contextlib.nullcontext, use_reference])
def test_no_gradient_is_one_of_zero(backend):
    found = []
    for missing in (None, torch.zeros(2, 3)):
        adam = _adam([torch.ones(2, 3), torch.ones(4)])
        with backend():
            adam.step([torch.ones(2, 3), torch.ones(4)], 0.1, 1.0)
            adam.step([missing, torch.ones(4)], 0.1, 1.0)
        found.append(adam.vector)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize("backend", [contextlib.nullcontext, use_reference])
def test_gradients_need_not_be_contiguous(backend):
    one, other = _adam([torch.ones(3, 4)]), _adam([torch.ones(3, 4)])
    gradient = torch.randn(4, 3).t()
    with backend():
        one.step([gradient], 0.1, 1.0)
        other.step([gradient.clone(memory_format=torch.contiguous_format)], 0.1, 1.0)
    torch.testing.assert_close(one.vector, other.vector, rtol=0, atol=0)


@pytest.mark.parametrize("backend", [contextlib.nullcontext, use_reference])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_not_hidden(value, backend):
    adam = _adam([torch.ones(3), torch.ones(2)])
    with backend():
        adam.step([torch.tensor([1.0, value, 1.0]), torch.ones(2)], 0.1, 1.0)
    assert not adam.vector.isfinite().all()


@pytest.mark.kernels
def test_the_number_of_threads_does_not_matter():
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            adam = _adam(_weights(torch.float32))
            adam.step(_weights(torch.float32), 0.1, 1.0)
            found.append(adam.vector)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"vector: expected 5 values in a row, got shape \[4\]"):
        Adam(torch.ones(4), [2, 3])
    adam = _adam([torch.ones(3)])
    with pytest.raises(ValueError, match=r"gradients: expected 3 values of torch.float32, got 4"):
        adam.step([torch.ones(4)], 0.1, 1.0)
    with pytest.raises(ValueError, match=r"got 3 of torch.float64"):
        adam.step([torch.ones(3).double()], 0.1, 1.0)
