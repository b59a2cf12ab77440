"""Every law can fail: each is shown a layer that breaks it, and none that does not."""

import pytest
import torch

from graphs import random_edges
from mimogc import testing
from mimogc.nn import LMGConv
from mimogc.ops import _native_layers


class Broken(LMGConv):
    """LMGConv with a fault after the sum."""

    def __init__(self, fault):
        super().__init__(4, 5)
        self.double()
        self.fault = fault

    def forward(self, x, edge_index):
        return self.fault(super().forward(x, edge_index), x, edge_index)


@pytest.fixture
def case():
    torch.manual_seed(0)
    return torch.randn(9, 4, dtype=torch.float64), random_edges(9, 25)


def test_a_sound_layer_passes(case):
    x, edge_index = case
    layer = Broken(lambda out, x, edge_index: out)
    testing.assert_operator(layer, x, edge_index)
    testing.assert_pairwise(layer, x, edge_index)
    testing.assert_node_equivariant(layer, x, edge_index)
    testing.assert_edge_equivariant(layer, x, edge_index)
    testing.assert_gradients(layer, x, edge_index)
    testing.assert_equal_layers(layer, layer, x, edge_index)


@pytest.mark.parametrize("law", [testing.assert_operator, testing.assert_pairwise])
def test_a_wrong_factor_breaks_the_operator(law, case):
    with pytest.raises(AssertionError, match="differs from"):
        law(Broken(lambda out, x, edge_index: 1.001 * out), *case)


def test_a_different_shape_is_said(case):
    with pytest.raises(AssertionError, match=r"expected shape \[9, 5\] like the dense operator"):
        testing.assert_operator(Broken(lambda out, x, edge_index: out[:, :4]), *case)


def test_a_node_by_its_number_breaks_node_equivariance(case):
    layer = Broken(lambda out, x, edge_index: out + torch.arange(9.0, dtype=out.dtype).view(-1, 1))
    with pytest.raises(AssertionError, match="renamed nodes"):
        testing.assert_node_equivariant(layer, *case)


def test_edge_features_stay_with_their_edges(case):
    x, edge_index = case
    features = torch.randn(edge_index.size(1), 2, dtype=x.dtype)
    layer = LMGConv(x.size(1), 3, edge_dim=2).to(x.dtype)
    testing.assert_node_equivariant(layer, x, edge_index, edge_attr=features)

    def numbered(x, edges, attr):
        return layer(x, edges, attr + edges[0].view(-1, 1))

    with pytest.raises(AssertionError, match="renamed nodes"):
        testing.assert_node_equivariant(numbered, x, edge_index, edge_attr=features)


def test_an_edge_by_its_number_breaks_edge_equivariance(case):
    layer = Broken(lambda out, x, edge_index: out + (edge_index[0] * torch.arange(25)).sum())
    with pytest.raises(AssertionError, match="reordered edges"):
        testing.assert_edge_equivariant(layer, *case)


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 1

    @staticmethod
    def backward(ctx, g):
        return 1.01 * g


class _WrongSecondGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        return value**2

    @staticmethod
    def backward(ctx, g):
        (value,) = ctx.saved_tensors
        return 2 * g * value.detach()  # right once, constant for the next derivative


def test_a_wrong_gradient_is_found(case):
    layer = Broken(lambda out, x, edge_index: _WrongGradient.apply(out))
    with pytest.raises(AssertionError, match="Jacobian mismatch"):
        testing.assert_gradients(layer, *case)
    with pytest.raises(AssertionError, match="gradient"):
        testing.assert_equal_layers(layer, super(Broken, layer).forward, *case)


def test_a_wrong_second_gradient_is_found(case):
    layer = Broken(lambda out, x, edge_index: _WrongSecondGradient.apply(out))
    testing.assert_gradients(layer, *case, second=False)
    with pytest.raises(AssertionError):
        testing.assert_gradients(layer, *case)


def test_gradients_need_float64(case):
    x, edge_index = case
    with pytest.raises(TypeError, match=r"x: expected torch.float64"):
        testing.assert_gradients(LMGConv(4, 5), x.float(), edge_index)


def test_layers_with_other_weights_differ(case):
    with pytest.raises(AssertionError, match="the other layer"):
        testing.assert_equal_layers(LMGConv(4, 5).double(), LMGConv(4, 5).double(), *case)


@pytest.mark.kernels
def test_an_inaccurate_kernel_is_found(case, monkeypatch):
    x, edge_index = case
    layer = LMGConv(4, 32)
    testing.assert_kernel_accuracy(layer, x, edge_index)
    sound = _native_layers.layer

    def careless(h, *rest):
        out, *others = sound(h, *rest)
        return out * (1 + 1e-5), *others

    monkeypatch.setattr(_native_layers, "layer", careless)
    with pytest.raises(AssertionError, match="output: the kernel's error"):
        testing.assert_kernel_accuracy(layer, x, edge_index)
