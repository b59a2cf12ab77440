"""LMGConv: the laws for every coefficient class, its inputs and its options."""

import copy

import pytest
import torch
from hypothesis import given, settings
from torch_geometric.edge_index import EdgeIndex
from torch_geometric.utils import to_torch_csc_tensor

from graphs import AWKWARD, awkward, edge_lists, random_edges
from mimogc import Graph, testing
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import ACM, BY_NAME, GATv2

NAMES = list(BY_NAME)
EQUIVARIANT = [name for name in NAMES if name != "free"]
EDGE_NAMES = ["lmgc", "lmgc-sym", "gat", "gatv2", "fagcn", "gated"]
DTYPES = [torch.float32, torch.float64]


def _case(dtype=torch.float64, nodes=12, edges=40, channels=5, seed=0):
    torch.manual_seed(seed)
    return torch.randn(nodes, channels, dtype=dtype), random_edges(nodes, edges, seed)


def _layer(name, dtype=torch.float64, **options):
    layer = LMGConv(5, 6, coefficients=name, **options).to(dtype)
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    return layer


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_is_the_operator_it_says(name, loops, dtype):
    x, edge_index = _case(dtype)
    layer = _layer(name, dtype, add_self_loops=loops)
    testing.assert_operator(layer, x, edge_index)
    testing.assert_pairwise(layer, x, edge_index)


@pytest.mark.parametrize("combine", ["mean", "concat"])
@pytest.mark.parametrize("name", ["lmgc", "gat", "acm", "free"])
def test_other_ways_to_combine(name, combine):
    x, edge_index = _case()
    layer = _layer(name, combine=combine)
    testing.assert_operator(layer, x, edge_index)
    assert layer(x, edge_index).size(1) == (6 * layer.heads if combine == "concat" else 6)


@pytest.mark.parametrize("graph", AWKWARD)
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_awkward_graphs(name, graph):
    nodes, edge_index = awkward(graph)
    torch.manual_seed(0)
    x = torch.randn(nodes, 5, dtype=torch.float64, requires_grad=True)
    for loops in (True, False):
        layer = _layer(name, add_self_loops=loops)
        testing.assert_operator(layer, x, edge_index)
        layer(x, edge_index).sum().backward()
        assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize("name", EQUIVARIANT)
def test_equivariance(name):
    x, edge_index = _case()
    layer = _layer(name)
    testing.assert_node_equivariant(layer, x, edge_index)
    testing.assert_edge_equivariant(layer, x, edge_index)


def test_free_coefficients_know_their_nodes():
    x, edge_index = _case()
    layer = _layer("free")
    layer(x, edge_index)
    testing.assert_edge_equivariant(layer, x, edge_index)  # its weights follow the sorted edges
    with pytest.raises(AssertionError, match="renamed nodes"):
        testing.assert_node_equivariant(layer, x, edge_index)


@settings(deadline=None, max_examples=25)
@given(edge_lists())
def test_any_graph(case):
    nodes, edge_index = case
    x = torch.randn(nodes, 5, dtype=torch.float64)
    for name in ("lmgc", "acm", "sheaf"):
        testing.assert_operator(_layer(name), x, edge_index)


@pytest.mark.parametrize("name", EQUIVARIANT)
def test_gradients(name):
    x, edge_index = _case(nodes=5, edges=9)
    layer = LMGConv(5, 2, heads=2 if name in ("lmgc", "lmgc-sym", "gat", "gatv2") else 4, coefficients=name).double()
    testing.assert_gradients(layer, x, edge_index)


@pytest.mark.kernels
@pytest.mark.parametrize("name", EQUIVARIANT)
@pytest.mark.parametrize("channels", [6, 48])
def test_kernels_are_as_accurate_as_plain_torch(name, channels):
    for seed, (nodes, edges) in enumerate([(30, 60), (200, 3000), (100, 100)]):
        x, edge_index = _case(torch.float32, nodes, edges, 24, seed)
        # The gradient to LMGC's offset is four sums of thousands of terms: chance decides which of the two is nearer.
        factor = 4.0 if name.startswith("lmgc") else 2.0
        testing.assert_kernel_accuracy(LMGConv(24, channels, coefficients=name), x, edge_index, factor)


def test_added_loops_come_last_also_where_many_were_given():
    edge_index = torch.tensor([[0] * 8 + [1, 0], [0] * 8 + [0, 1]])
    _, (edges, _) = LMGConv(3, 4)(torch.randn(2, 3), edge_index, return_attention_weights=True)
    assert edges.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]


@pytest.mark.parametrize("name", NAMES)
def test_given_order_of_the_attention_weights(name):
    x, edge_index = _case()
    edge_index = torch.unique(edge_index, dim=1)[:, torch.randperm(30)]  # no duplicates, in any order
    layer = _layer(name)
    out, (edges, alpha) = layer(x, edge_index, return_attention_weights=True)
    torch.testing.assert_close(out, layer(x, edge_index))
    kept = edge_index[:, edge_index[0] != edge_index[1]]
    loops = torch.arange(12).repeat(2, 1)
    assert torch.equal(edges, torch.cat([kept, loops], dim=1))
    graph = Graph.from_edge_index(edge_index, 12)
    _, (own_edges, own_alpha) = layer(x, graph, return_attention_weights=True)
    assert torch.equal(own_edges, graph.with_self_loops().edge_index)
    where = {tuple(edge): weight for edge, weight in zip(own_edges.t().tolist(), own_alpha, strict=True)}
    for edge, weight in zip(edges.t().tolist(), alpha, strict=True):
        torch.testing.assert_close(weight, where[tuple(edge)])


@pytest.mark.parametrize("name", ["lmgc", "gatv2", "acm"])
def test_every_form_of_graph_gives_the_same(name):
    x, edge_index = _case()
    edge_index = torch.unique(edge_index, dim=1)  # a sparse matrix has no duplicate edges
    layer = _layer(name)
    expected = layer(x, edge_index)
    adjacency = to_torch_csc_tensor(edge_index, size=(12, 12)).to(torch.float64)
    for form in (
        Graph.from_edge_index(edge_index, 12),
        EdgeIndex(edge_index.contiguous(), sparse_size=(12, 12)),
        adjacency.t(),
        adjacency.t().to_sparse_coo(),
        edge_index.int(),
    ):
        torch.testing.assert_close(layer(x, form), expected)


def test_values_of_a_sparse_matrix_are_edge_attributes():
    x, edge_index = _case()
    edge_index = torch.unique(edge_index, dim=1)
    values = torch.randn(edge_index.size(1), dtype=torch.float64)
    transposed = torch.sparse_coo_tensor(edge_index.flip(0), values, (12, 12))
    layer = _layer("lmgc", edge_dim=1)
    torch.testing.assert_close(layer(x, transposed), layer(x, edge_index, values))
    with pytest.raises(ValueError, match=rf"edge_attr: expected none, .* got shape \[{len(values)}\]"):
        _layer("lmgc")(x, transposed)


def test_values_that_happen_to_be_one_are_edge_attributes_where_the_layer_wants_some():
    x, edge_index = _case()
    edge_index = torch.unique(edge_index, dim=1)
    ones = torch.ones(edge_index.size(1), dtype=torch.float64)
    layer = _layer("lmgc", edge_dim=1)
    expected = layer(x, edge_index, ones)
    adjacency = torch.sparse_coo_tensor(edge_index.flip(0), ones, (12, 12))
    torch.testing.assert_close(layer(x, adjacency), expected)
    torch.testing.assert_close(layer(x, adjacency.to_sparse_csr()), expected)


@pytest.mark.parametrize("name", EDGE_NAMES)
@pytest.mark.parametrize("loops", [True, False])
def test_edge_features(name, loops):
    x, edge_index = _case()
    attributes = torch.randn(40, 3, dtype=torch.float64)
    layer = _layer(name, edge_dim=3, add_self_loops=loops)
    out = layer(x, edge_index, attributes)
    testing.assert_edge_equivariant(layer, x, edge_index, attributes)
    assert not torch.allclose(out, layer(x, edge_index, attributes + 1))
    graph = Graph.from_edge_index(edge_index, 12, attributes)
    torch.testing.assert_close(layer(x, graph), out)
    attributes.requires_grad_()
    layer(x, edge_index, attributes).sum().backward()
    assert float(attributes.grad.abs().sum()) > 0


@pytest.mark.parametrize("name", EDGE_NAMES)
def test_edge_features_of_the_fused_and_the_plain_path_agree(name):
    x, edge_index = _case()
    attributes = torch.randn(40, 3, dtype=torch.float64)
    layer = _layer(name, edge_dim=3)
    explicit, _ = layer(x, edge_index, attributes, return_attention_weights=True)
    torch.testing.assert_close(layer(x, edge_index, attributes), explicit)


def test_dropout_of_coefficients():
    x, edge_index = _case()
    layer = _layer("lmgc", dropout=0.5)
    torch.manual_seed(1)
    once = layer(x, edge_index)
    torch.manual_seed(1)
    assert torch.equal(layer(x, edge_index), once)
    assert not torch.allclose(layer(x, edge_index), once)
    layer.eval()
    assert torch.equal(layer(x, edge_index), layer(x, edge_index))
    _, (_, alpha) = layer.train()(x, edge_index, return_attention_weights=True)
    assert 0.2 < float((alpha == 0).double().mean()) < 0.8


@pytest.mark.parametrize("name", NAMES)
def test_lazy_input_channels(name):
    x, edge_index = _case()
    layer = LMGConv(-1, 6, coefficients=name).double()
    out = layer(x, edge_index)
    assert layer.lin.weight.shape[1] == 5
    assert torch.equal(out, layer(x, edge_index))
    testing.assert_operator(layer, x, edge_index)


@pytest.mark.parametrize("name", ["lmgc", "gat", "gatv2", "gated"])
@pytest.mark.parametrize("channels", [5, (5, 7), (-1, -1)])
def test_bipartite(name, channels):
    torch.manual_seed(0)
    edge_index = torch.stack([random_edges(12, 40)[0], random_edges(4, 40, seed=1)[1]])
    target = 5 if channels == 5 else 7
    x = (torch.randn(12, 5, dtype=torch.float64), torch.randn(4, target, dtype=torch.float64))
    if name == "gatv2" and channels != 5:
        name = GATv2(channels, 6, share_weights=False)
    layer = LMGConv(channels, 6, coefficients=name, add_self_loops=False).double()
    out = layer(x, edge_index)
    assert out.shape == (4, 6)
    operator = layer.operator(x, edge_index)
    message = torch.einsum("ek,kfc,ef->ec", operator.alpha, operator.weight, x[0][operator.graph.src])
    expected = torch.zeros(4, 6, dtype=torch.float64).index_add(0, operator.graph.dst, message)
    torch.testing.assert_close(out, expected + layer.bias)


def test_a_ready_graph_gets_the_self_loops_the_layer_asks_for():
    x, edge_index = _case()
    graph = Graph.from_edge_index(edge_index, 12)
    layer = _layer("lmgc")
    torch.testing.assert_close(layer(x, graph), layer(x, edge_index))
    without = copy.deepcopy(layer)
    without.add_self_loops = False
    assert not torch.allclose(without(x, graph), layer(x, graph))


def test_reset_parameters_starts_again():
    x, edge_index = _case()
    for name in NAMES:
        layer = _layer(name)
        before = layer(x, edge_index)
        torch.manual_seed(5)
        layer.reset_parameters()
        after = layer(x, edge_index)
        torch.manual_seed(5)
        layer.reset_parameters()
        assert torch.equal(layer(x, edge_index), after)
        assert not torch.allclose(before, after)


def test_state_dict_and_repr():
    layer = LMGConv(5, 6)
    assert repr(layer) == "LMGConv(5, 6, heads=4, coefficients=LMGC)"
    assert list(layer.state_dict()) == ["bias", "coefficients.att", "coefficients.offset", "lin.weight"]
    assert layer.lin.weight.shape == (24, 5)
    other = LMGConv(5, 6)
    other.load_state_dict(layer.state_dict())
    x, edge_index = _case(torch.float32)
    assert torch.equal(layer(x, edge_index), other(x, edge_index))


def test_acm_with_the_identity_as_a_third():
    x, edge_index = _case()
    for loops in (True, False):
        layer = LMGConv(5, 6, coefficients=ACM(identity=True), add_self_loops=loops).double()
        assert layer.heads == 3
        testing.assert_operator(layer, x, edge_index)


def test_autocast():
    x, edge_index = _case(torch.float32)
    layer = LMGConv(5, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x, edge_index)
    torch.testing.assert_close(out, layer(x, edge_index), rtol=0.1, atol=0.1)
    out.sum().backward()
    assert layer.lin.weight.grad.dtype == torch.float32


def test_bfloat16_layer():
    x, edge_index = _case(torch.float32)
    layer = LMGConv(5, 6)
    expected = layer(x, edge_index)
    out = layer.bfloat16()(x.bfloat16(), edge_index)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)


def test_nan_in_nan_out():
    x, edge_index = _case(torch.float32)
    x[3, 2] = torch.nan
    for name in NAMES:
        out = LMGConv(5, 6, coefficients=name)(x, edge_index)
        assert bool(out[3].isnan().all())


def test_free_coefficients_are_loaded_into_a_new_layer():
    x, edge_index = _case()
    layer = _layer("free")
    expected = layer(x, edge_index)
    fresh = _layer("free")
    fresh.load_state_dict(layer.state_dict())
    assert torch.equal(fresh(x, edge_index), expected)
