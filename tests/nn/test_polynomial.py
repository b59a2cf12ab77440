"""PolynomialConv agrees with the spectral filters in all bases, also in its gradients."""

import math

import pytest
import torch
from torch_geometric.nn import ChebConv, GCNConv
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.nn import PolynomialConv
from mimogc.ops import propagate
from mimogc.spectral import fourier_basis, mimo_convolution, polynomial_filter, theta_from_polynomial

BASES = ["monomial", "chebyshev", "cayley"]


@pytest.fixture
def graph():
    torch.manual_seed(0)
    edge_index = erdos_renyi_graph(10, 0.3)  # with a duplicate edge, a self-loop and an isolated node
    extra = torch.tensor([[0, 1, 2], [1, 0, 2]])
    return Graph.from_edge_index(torch.cat([edge_index, extra], dim=1), 11)


def coefficients(layer):
    """The layer's matrices as `polynomial_filter` takes them."""
    weight = layer.weight.detach()
    if layer.basis != "cayley":
        return weight
    parts = torch.complex(weight[1::2], weight[2::2])
    return torch.cat([weight[:1].to(parts.dtype), parts])


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("degree", [0, 1, 4])
def test_agrees_with_the_spectral_filter(graph, basis, degree):
    layer = PolynomialConv(3, 2, degree, basis, bias=False).double()
    zoom = 1.0
    if basis == "cayley":
        zoom = 1.7
        torch.nn.init.constant_(layer.log_zoom, math.log(zoom))
    x = torch.randn(11, 3).double()
    sparse = polynomial_filter(coefficients(layer), x, graph, basis, zoom)
    torch.testing.assert_close(layer(x, graph), sparse, atol=1e-10, rtol=0)
    theta = theta_from_polynomial(coefficients(layer), fourier_basis(graph), basis, zoom)
    spectral = mimo_convolution(theta, x, fourier_basis(graph))
    torch.testing.assert_close(layer(x, graph.edge_index), spectral, atol=1e-10, rtol=0)


@pytest.mark.parametrize("basis", BASES)
def test_gradients_and_float32(graph, basis):
    layer = PolynomialConv(2, 2, 3, basis).double()
    x = torch.randn(11, 2).double().requires_grad_()
    parameters = dict(layer.named_parameters())

    def run(x, *values):
        return torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x, graph))

    inputs = (x, *(p.detach().clone().requires_grad_() for p in parameters.values()))
    assert torch.autograd.gradcheck(run, inputs)
    single = layer.float()(x.float(), graph)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), layer.double()(x, graph), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("basis", ["monomial", "chebyshev"])
@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("loops", [False, True])
def test_operator_is_the_layer(graph, basis, degree, loops):
    layer = PolynomialConv(3, 4, degree, basis, add_self_loops=loops, bias=False).double()
    x = torch.randn(11, 3).double()
    operator = layer.operator(x, graph)
    h = torch.einsum("nf,kfc->nkc", x, operator.weight)
    torch.testing.assert_close(propagate(operator.alpha, h, operator.graph), layer(x, graph), atol=1e-12, rtol=0)


def test_a_cayley_filter_has_no_local_operator(graph):
    with pytest.raises(NotImplementedError, match="not local"):
        PolynomialConv(2, 2, 1, "cayley").operator(torch.randn(11, 2), graph)


def test_same_as_pyg_where_pyg_has_it(graph):
    simple = Graph.from_edge_index(erdos_renyi_graph(9, 0.5), 9)
    x = torch.randn(9, 3)
    cheb, ours = ChebConv(3, 2, K=4), PolynomialConv(3, 2, 3, "chebyshev")
    for k, lin in enumerate(cheb.lins):  # PyG's polynomials are in L − I = −A_sym
        ours.weight.data[k] = (-1) ** k * lin.weight.data.T
    torch.testing.assert_close(ours(x, simple), cheb(x, simple.edge_index), atol=1e-5, rtol=1e-5)
    gcn, line = GCNConv(3, 2), PolynomialConv(3, 2, 1, add_self_loops=True)
    line.weight.data[0] = 0
    line.weight.data[1] = gcn.lin.weight.data.T
    torch.testing.assert_close(line(x, simple), gcn(x, simple.edge_index), atol=1e-5, rtol=1e-5)


def test_directed_graphs_and_no_nodes():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    x = torch.randn(3, 2)
    assert PolynomialConv(2, 4, 3)(x, edges).shape == (3, 4)
    with pytest.raises(ValueError, match="edge_index: Cayley filters need an undirected graph"):
        PolynomialConv(2, 4, 3, "cayley")(x, edges)
    for basis in BASES:
        none = PolynomialConv(2, 4, 2, basis)(torch.empty(0, 2), torch.empty(2, 0, dtype=torch.long))
        assert none.shape == (0, 4)


def test_reset_and_repr(graph):
    layer = PolynomialConv(2, 3, 2, "cayley")
    assert repr(layer) == "PolynomialConv(2, 3, degree=2, basis='cayley')"
    assert layer.weight.shape == (5, 2, 3)
    before = layer.weight.clone()
    torch.nn.init.constant_(layer.log_zoom, 3.0)
    layer.reset_parameters()
    assert layer.log_zoom.item() == 0
    assert not torch.equal(before, layer.weight)


def test_wrong_arguments(graph):
    with pytest.raises(ValueError, match="basis: expected one of monomial, chebyshev, cayley, got 'legendre'"):
        PolynomialConv(2, 2, 2, "legendre")
    with pytest.raises(ValueError, match="degree: expected a whole number of at least 0, got -1"):
        PolynomialConv(2, 2, -1)
    with pytest.raises(ValueError, match=r"x: expected shape \[N, 2\], got \[11, 3\]"):
        PolynomialConv(2, 2)(torch.randn(11, 3), graph)
