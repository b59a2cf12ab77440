"""Component amplification, coupling and operator rank: the known values, and closed form against differentiation."""

import pytest
import torch
from torch_geometric.nn import GATv2Conv, GCNConv, GINConv
from torch_geometric.utils import erdos_renyi_graph

from mimogc import Graph
from mimogc.nn import LMGConv, MIMOConv, PolynomialConv
from mimogc.nn.coefficients import ACM, Sheaf
from mimogc.spectral import (
    amplification_rank,
    component_amplification,
    coupling,
    fourier_basis,
    graph_gram,
    operator_rank,
)

METHODS = ["lmgc", "gcn", "gat", "gatv2", "fagcn", "acm", "gated", "sheaf", "free"]
N, F, C = 10, 3, 4


@pytest.fixture
def graph():
    """Undirected and connected, with a duplicate edge and a self-loop."""
    torch.manual_seed(0)
    ring = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])
    edges = torch.cat([ring, ring.flip(0), erdos_renyi_graph(N, 0.2), torch.tensor([[2], [2]])], dim=1)
    return Graph.from_edge_index(edges, N)


@pytest.fixture
def x(graph):
    return torch.randn(N, F).double()


def layer_of(method, heads=4, loops=False, **options):
    return LMGConv(F, C, heads=heads, coefficients=method, add_self_loops=loops, **options).double()


def frozen(layer, x, graph):
    """The same linear map without `operator`: what differentiation has to find."""
    operator = layer.operator(x, graph)
    alpha, weight = operator.alpha.detach(), operator.weight.detach()

    def run(features, edge_index):
        h = torch.einsum("nf,kfc->nkc", features, weight)
        message = (alpha.unsqueeze(-1) * h[operator.graph.src]).sum(1)
        return torch.zeros(N, C).double().index_add(0, operator.graph.dst, message)

    return run


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_closed_form_agrees_with_differentiation(method, loops, graph, x):
    layer = layer_of(method, loops=loops)
    other = frozen(layer, x, graph)
    torch.testing.assert_close(other(x, None) + layer.bias, layer(x, graph), atol=1e-12, rtol=0)
    closed, dense = component_amplification(layer, x, graph), component_amplification(other, x, graph)
    assert closed.shape == (N, C, F)
    assert closed.dtype == torch.float64
    torch.testing.assert_close(closed, dense, atol=1e-12, rtol=0)
    assert coupling(layer, x, graph) == pytest.approx(coupling(other, x, graph), abs=1e-12)
    assert operator_rank(layer, x, graph) == operator_rank(other, x, graph)
    assert amplification_rank(closed) <= operator_rank(layer, x, graph)


def test_the_definition(graph, x):
    layer = layer_of("eq12")
    operator = layer.requires_grad_(False).operator(x, graph)
    u = fourier_basis(graph).vectors
    a = torch.zeros(4, N, N).double()
    a.index_put_((torch.arange(4).view(-1, 1), operator.graph.dst, operator.graph.src), operator.alpha.T, True)
    jacobian = torch.einsum("mij,mfc->icjf", a, operator.weight)
    transformed = torch.einsum("ik,icjf,jl->kclf", u, jacobian, u)
    diagonal = torch.einsum("kckf->kcf", transformed)
    torch.testing.assert_close(component_amplification(layer, x, graph), diagonal, atol=1e-12, rtol=0)
    expected = 1 - float(diagonal.square().sum() / transformed.square().sum())
    assert coupling(layer, x, graph) == pytest.approx(expected, abs=1e-12)
    assert 0.01 < expected < 1
    rearranged = jacobian.permute(0, 2, 1, 3).reshape(N * N, C * F)
    assert operator_rank(layer, x, graph) == torch.linalg.matrix_rank(rearranged) == 4


def test_a_single_graph_has_rank_one(graph, x):
    for layer in (layer_of("gcn"), layer_of("fagcn"), layer_of("lmgc", heads=1), layer_of("free", heads=1)):
        assert operator_rank(layer, x, graph) == 1
        assert amplification_rank(component_amplification(layer, x, graph)) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loops", [False, True])
def test_acm_has_rank_two_never_three(graph, x, dtype, loops):
    for identity in (False, True):
        layer = LMGConv(F, C, coefficients=ACM(identity=identity), add_self_loops=loops).to(dtype)
        assert layer.heads == 2 + identity
        assert operator_rank(layer, x.to(dtype), graph) == 2
        assert amplification_rank(component_amplification(layer, x.to(dtype), graph)) == 2


@pytest.mark.parametrize("method", ["lmgc", "gat", "gatv2", "free"])
@pytest.mark.parametrize("heads", [2, 5, 20])
def test_heads_bound_the_rank(method, heads, graph, x):
    layer = layer_of(method, heads=heads)
    assert operator_rank(layer, x, graph) <= min(heads, C * F)
    if method == "free":
        assert operator_rank(layer, x, graph) == min(heads, C * F)


def test_structured_maps(graph, x):
    assert operator_rank(layer_of("gated"), x, graph) == C
    sheaf = LMGConv(F, C, coefficients=Sheaf(F, C, stalk_dim=2), add_self_loops=False).double()
    assert operator_rank(sheaf, x, graph) == 4


@pytest.mark.parametrize("basis", ["monomial", "chebyshev"])
def test_polynomials(basis, graph, x):
    distinct = len(torch.unique(fourier_basis(graph).values))
    for degree in range(6):
        layer = PolynomialConv(F, C, degree, basis).double()
        assert operator_rank(layer, x, graph) == min(degree + 1, distinct, C * F)
        assert coupling(layer, x, graph) == pytest.approx(0, abs=1e-12)
    ring = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])).to_undirected()  # three distinct λ
    assert operator_rank(PolynomialConv(F, C, 5, basis).double(), torch.randn(4, F).double(), ring) == 3


def test_cayley_by_differentiation(graph, x):
    layer = PolynomialConv(F, C, 2, "cayley").double()
    assert operator_rank(layer, x, graph) == 5  # 1 and the real and imaginary parts of C and C²
    assert coupling(layer, x, graph) == pytest.approx(0, abs=1e-10)


def test_mimo_gc(graph, x):
    basis = fourier_basis(graph)
    layer = MIMOConv(F, C, basis).double()
    torch.testing.assert_close(component_amplification(layer, x, graph), layer.weight.detach(), atol=1e-12, rtol=0)
    assert coupling(layer, x, graph) == pytest.approx(0, abs=1e-12)
    assert operator_rank(layer, x, graph) == amplification_rank(layer.weight.detach()) == min(N, C * F)
    low = MIMOConv(F, C, basis, rank=3).double()
    assert operator_rank(low, x, graph) == 3
    narrow = MIMOConv(2, 2, basis).double()
    assert operator_rank(narrow, x[:, :2], graph) == 4


@pytest.mark.parametrize("method", ["gcn", "acm"])
def test_coupling_of_gcn_and_acm_depends_on_the_basis_of_their_graph(method, graph, x):
    assert coupling(layer_of(method), x, graph) == pytest.approx(0, abs=1e-12)
    looped = layer_of(method, loops=True)
    assert coupling(looped, x, graph) > 1e-4
    own = fourier_basis(graph.with_self_loops())
    assert coupling(looped, x, graph, basis=own) == pytest.approx(0, abs=1e-12)


def test_gcn_amplifies_by_its_eigenvalues(graph, x):
    layer = layer_of("gcn")
    values = fourier_basis(graph).adjacency_values.view(-1, 1, 1)
    expected = values * layer.lin.weight.detach()  # [C, F]
    torch.testing.assert_close(component_amplification(layer, x, graph), expected, atol=1e-12, rtol=0)


def test_differentiate_includes_the_coefficients(graph, x):
    layer = layer_of("lmgc")
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, graph), x)
    u = fourier_basis(graph).vectors
    expected = torch.einsum("ik,icjf,jk->kcf", u, jacobian, u)
    total = component_amplification(layer, x, graph, differentiate=True)
    torch.testing.assert_close(total, expected, atol=1e-10, rtol=0)
    assert (total - component_amplification(layer, x, graph)).abs().max() > 1e-2
    assert operator_rank(layer, x, graph, differentiate=True) > 4
    gcn = layer_of("gcn")  # constant coefficients: no difference
    torch.testing.assert_close(
        component_amplification(gcn, x, graph, differentiate=True), component_amplification(gcn, x, graph)
    )


def test_edge_attributes_of_the_graph_count(x):
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    layer = LMGConv(F, C, edge_dim=2).double()
    graphs = [Graph.from_edge_index(edges, N, torch.randn(4, 2).double()) for _ in range(2)]
    for differentiate in (False, True):
        one, two = (component_amplification(layer, x, graph, differentiate=differentiate) for graph in graphs)
        assert (one - two).abs().max() > 1e-3


def test_any_other_layer(graph, x):
    mlp = torch.nn.Sequential(torch.nn.Linear(F, 8), torch.nn.Tanh(), torch.nn.Linear(8, C)).double()
    for layer in (GCNConv(F, C), GATv2Conv(F, C), GINConv(mlp)):
        layer = layer.double()
        assert component_amplification(layer, x, graph).shape == (N, C, F)
        assert 0 <= coupling(layer, x, graph) < 1
    assert operator_rank(GCNConv(F, C).double(), x, graph) == 1
    assert operator_rank(GINConv(mlp), x, graph) > 1
    constant = component_amplification(lambda x, edge_index: torch.ones(N, C), x, graph)
    assert not constant.any()


def test_gradients_are_neither_needed_nor_left(graph, x):
    layer = layer_of("lmgc")
    with torch.no_grad():
        component_amplification(layer, x, graph, differentiate=True)
    assert all(p.grad is None for p in layer.parameters())
    assert not component_amplification(layer, x, graph).requires_grad


def test_a_directed_graph_uses_the_basis_of_its_undirected_form(x):
    directed = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), N)
    layer = layer_of("lmgc")
    expected = component_amplification(layer, x, directed, basis=fourier_basis(directed.to_undirected()))
    torch.testing.assert_close(component_amplification(layer, x, directed), expected)


def test_graphs_of_a_mimo_gc_are_orthogonal_and_softmax_heads_are_not(graph, x):
    gram = graph_gram(layer_of("gatv2"), x, graph)
    assert gram.shape == (4, 4)
    assert bool((gram > 0).all())
    signed = graph_gram(layer_of("free"), x, graph)
    normalized = signed / signed.diagonal().outer(signed.diagonal()).sqrt()
    assert bool((normalized.fill_diagonal_(0).abs() < 0.9).all())
    u = fourier_basis(graph).vectors
    graphs = torch.einsum("ik,jk->kij", u, u).flatten(1)
    torch.testing.assert_close(graphs @ graphs.T, torch.eye(N).double(), atol=1e-12, rtol=0)


def test_empty_graphs_and_zero_layers():
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 3)
    layer, x = layer_of("lmgc"), torch.randn(3, F).double()
    assert operator_rank(layer, x, empty) == 0
    assert coupling(layer, x, empty) == 0
    assert amplification_rank(component_amplification(layer, x, empty)) == 0
    nobody = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    assert component_amplification(layer, torch.empty(0, F).double(), nobody).shape == (0, C, F)


def test_float32(graph, x):
    torch.manual_seed(3)
    layer = layer_of("lmgc")
    single = component_amplification(layer.float(), x.float(), graph)
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, component_amplification(layer.double(), x, graph), atol=1e-4, rtol=1e-4)
    assert operator_rank(layer.float(), x.float(), graph) == 4


def test_refusals(graph, x):
    layer = layer_of("lmgc")
    with pytest.raises(ValueError, match=r"layer: the Jacobian of LMGConv from \[10, 3\] to \[10, 4\] takes about"):
        component_amplification(layer, x, graph, differentiate=True, memory_limit=1000)
    with pytest.raises(TypeError, match=r"graph: expected a mimogc\.Graph, got Tensor"):
        operator_rank(layer, x, graph.edge_index)
    with pytest.raises(ValueError, match=r"x: expected shape \[10, F\], got \[9, 3\]"):
        operator_rank(layer, x[:9], graph)
    with pytest.raises(ValueError, match="basis: expected a complete basis of 10 components, got 4"):
        coupling(layer, x, graph, basis=fourier_basis(graph, 4))
    other = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 3)
    with pytest.raises(ValueError, match="basis: expected one of 10 nodes, like graph, got 3"):
        component_amplification(layer, x, graph, basis=fourier_basis(other))
    with pytest.raises(TypeError, match=r"layer: expected a layer with operator\(x, graph\), got GCNConv"):
        graph_gram(GCNConv(F, C), x, graph)
    with pytest.raises(ValueError, match="layer: expected it to return node features"):
        component_amplification(lambda x, edge_index: x.sum(), x, graph)
    with pytest.raises(ValueError, match=r"amplification: expected shape \[N, C, F\]"):
        amplification_rank(torch.ones(3, 2))
