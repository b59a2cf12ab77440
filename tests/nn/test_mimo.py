"""MIMOConv agrees with the spectral convolution, fits anything, and belongs to one graph."""

import copy

import pytest
import torch
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.nn import MIMOConv
from mimogc.spectral import fourier_basis, mimo_convolution


@pytest.fixture
def graph():
    torch.manual_seed(0)
    return Graph.from_edge_index(erdos_renyi_graph(12, 0.3), 12).to_undirected()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_agrees_with_the_spectral_convolution(graph, dtype):
    basis = fourier_basis(graph)
    layer, x = MIMOConv(3, 5, basis).to(dtype), torch.randn(12, 3, dtype=dtype)
    torch.nn.init.normal_(layer.bias)
    expected = mimo_convolution(None, x, basis, theta_hat=layer.weight) + layer.bias
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(layer(x, graph), expected, atol=tolerance, rtol=tolerance)
    assert layer(x).dtype == dtype


def test_rank_keeps_the_leading_components(graph):
    basis = fourier_basis(graph)
    layer, x = MIMOConv(3, 4, basis, rank=5, bias=False).double(), torch.randn(12, 3).double()
    assert layer.weight.shape == (5, 4, 3)
    torch.testing.assert_close(layer.values, basis.values[:5])
    expected = mimo_convolution(None, x, fourier_basis(graph, 5), theta_hat=layer.weight)
    torch.testing.assert_close(layer(x), expected, atol=1e-12, rtol=0)
    assert torch.linalg.matrix_rank(basis.vectors.T @ layer(torch.eye(12).double()[:, :3])) <= 5


def test_takes_a_pair_of_tensors_and_saves_only_what_is_learnt(graph):
    basis = fourier_basis(graph)
    one, two = MIMOConv(2, 2, basis), MIMOConv(2, 2, (basis.values, basis.vectors))
    assert set(one.state_dict()) == {"weight", "bias"}
    two.load_state_dict(one.state_dict())
    x = torch.randn(12, 2)
    torch.testing.assert_close(one(x), two(x))
    torch.testing.assert_close(copy.deepcopy(one)(x), one(x))
    assert repr(one) == "MIMOConv(2, 2, nodes=12, components=12)"


def test_reset_parameters_starts_again(graph):
    layer = MIMOConv(2, 2, fourier_basis(graph))
    before = layer.weight.clone()
    torch.nn.init.ones_(layer.bias)
    layer.reset_parameters()
    assert not torch.equal(layer.weight, before)
    assert layer.bias.tolist() == [0, 0]


def test_optimisation_reaches_any_target(graph):
    torch.manual_seed(1)
    layer = MIMOConv(3, 4, fourier_basis(graph), bias=False).double()
    x, y = torch.randn(12, 3).double(), torch.randn(12, 4).double()
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=1000, tolerance_grad=1e-14, tolerance_change=0)

    def loss():
        optimizer.zero_grad()
        value = (layer(x) - y).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    assert loss().item() < 1e-15


def test_gradients(graph):
    layer = MIMOConv(2, 3, fourier_basis(graph)).double()
    x = torch.randn(12, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: torch.func.functional_call(layer, {"weight": w}, (x,)),
                                    (x, layer.weight.detach().requires_grad_()))  # fmt: skip


def test_wrong_arguments(graph):
    basis = fourier_basis(graph)
    with pytest.raises(ValueError, match="rank: expected 1 to 12, the components of the basis, got 13"):
        MIMOConv(2, 2, basis, rank=13)
    with pytest.raises(ValueError, match=r"basis: expected values \[M\] and vectors \[N, M\]"):
        MIMOConv(2, 2, (basis.values[:3], basis.vectors))
    with pytest.raises(ValueError, match=r"x: expected shape \[12, 2\].*got \[11, 2\]"):
        MIMOConv(2, 2, basis)(torch.randn(11, 2))
