"""Each coefficient class is the published method: equal to PyG's layer with copied weights or to a dense operator."""

import pytest
import torch
from torch_geometric.nn import FAConv, GATConv, GATv2Conv, GCNConv, GINConv, ResGatedGraphConv

from graphs import AWKWARD, awkward, random_edges
from mimogc import Graph, testing
from mimogc.nn import ACMConv, GINLayer, LMGConv
from mimogc.nn.coefficients import ACM, GATv2, Sheaf

DTYPES = [torch.float32, torch.float64]
GRAPHS = {"random": (12, random_edges(12, 40))} | {name: awkward(name) for name in AWKWARD if name != "no nodes"}


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


def _x(nodes, channels, dtype):
    torch.manual_seed(0)
    return torch.randn(nodes, channels, dtype=dtype)


def _without_loops(graph):
    nodes, edge_index = graph
    return nodes, edge_index[:, edge_index[0] != edge_index[1]]


def _check(layer, other, graph, dtype, channels=5):
    nodes, edge_index = graph
    testing.assert_equal_layers(layer, other, _x(nodes, channels, dtype), edge_index, tolerance=1e-5)


@pytest.mark.parametrize("loops", [True, False])
def test_gcn(graph, dtype, loops):
    graph = _without_loops(graph) if loops else graph  # GCNConv keeps existing loops, the layer replaces them
    other = GCNConv(5, 6, add_self_loops=loops).to(dtype)
    layer = LMGConv(5, 6, coefficients="gcn", add_self_loops=loops).to(dtype)
    layer.lin.weight.data.copy_(other.lin.weight)
    _check(layer, other, graph, dtype)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("combine", ["concat", "mean"])
def test_gat(graph, dtype, combine, loops):
    other = GATConv(5, 6, heads=3, concat=combine == "concat", add_self_loops=loops).to(dtype)
    layer = LMGConv(5, 6, heads=3, coefficients="gat", combine=combine, add_self_loops=loops).to(dtype)
    layer.lin.weight.data.copy_(other.lin.weight)
    layer.coefficients.att_src.data.copy_(other.att_src)
    layer.coefficients.att_dst.data.copy_(other.att_dst)
    _check(layer, other, graph, dtype)


@pytest.mark.parametrize("share_weights", [True, False])
@pytest.mark.parametrize("combine", ["concat", "mean"])
def test_gatv2(graph, dtype, combine, share_weights):
    options = {"heads": 3, "concat": combine == "concat", "share_weights": share_weights}
    other = GATv2Conv(5, 6, **options).to(dtype)
    for lin in (other.lin_l, other.lin_r):
        torch.nn.init.normal_(lin.bias)
    coefficients = GATv2(5, 6, heads=3, share_weights=share_weights, affine=True)
    layer = LMGConv(5, 6, coefficients=coefficients, combine=combine, affine=True).to(dtype)
    layer.lin.load_state_dict(other.lin_l.state_dict())
    if not share_weights:
        layer.coefficients.lin_target.load_state_dict(other.lin_r.state_dict())
    layer.coefficients.att.data.copy_(other.att)
    _check(layer, other, graph, dtype)


def test_gat_and_gatv2_with_edge_features(dtype):
    nodes, edge_index = GRAPHS["random"]
    x, attributes = _x(nodes, 5, dtype), torch.randn(40, 2, dtype=dtype)
    gat, gatv2 = GATConv(5, 6, heads=3, edge_dim=2).to(dtype), GATv2Conv(5, 6, heads=3, edge_dim=2).to(dtype)
    for other, name in ((gat, "gat"), (gatv2, "gatv2")):
        layer = LMGConv(5, 6, heads=3, coefficients=name, combine="concat", edge_dim=2).to(dtype)
        if name == "gat":
            layer.lin.weight.data.copy_(other.lin.weight)
            for key in ("att_src", "att_dst", "att_edge"):
                getattr(layer.coefficients, key).data.copy_(getattr(other, key))
        else:
            other.lin_r = other.lin_l
            torch.nn.init.zeros_(other.lin_l.bias)
            layer.lin.weight.data.copy_(other.lin_l.weight)
            layer.coefficients.att.data.copy_(other.att)
        layer.coefficients.lin_edge.weight.data.copy_(other.lin_edge.weight)
        expected = other(x, edge_index, attributes)
        torch.testing.assert_close(layer(x, edge_index, attributes), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loops", [True, False])
def test_fagcn_is_faconv_without_its_residual(graph, dtype, loops):
    graph = _without_loops(graph) if loops else graph  # FAConv keeps existing loops, the layer replaces them
    other = FAConv(5, eps=0.0, add_self_loops=loops).to(dtype)
    layer = LMGConv(5, 5, coefficients="fagcn", add_self_loops=loops, bias=False).to(dtype)
    layer.lin.weight.data.copy_(torch.eye(5))
    layer.coefficients.att_src.weight.data.copy_(other.att_l.weight)
    layer.coefficients.att_dst.weight.data.copy_(other.att_r.weight)
    nodes, edge_index = graph
    x = _x(nodes, 5, dtype)
    testing.assert_equal_layers(layer, lambda x, edges: other(x, x, edges), x, edge_index, tolerance=1e-5)


def test_gated_is_resgatedgraphconv_without_its_root(graph, dtype):
    other = ResGatedGraphConv(5, 6, root_weight=False).to(dtype)
    torch.nn.init.zeros_(other.lin_value.bias)
    torch.nn.init.normal_(other.lin_key.bias)
    layer = LMGConv(5, 6, coefficients="gated", add_self_loops=False).to(dtype)
    layer.lin.weight.data.copy_(other.lin_value.weight)
    layer.coefficients.lin_key.load_state_dict(other.lin_key.state_dict())
    layer.coefficients.lin_key.bias.data.add_(other.lin_query.bias)
    layer.coefficients.lin_query.weight.data.copy_(other.lin_query.weight)
    _check(layer, other, graph, dtype)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("identity", [True, False])
def test_acm_is_its_dense_filter_bank(graph, dtype, identity, loops):
    nodes, edge_index = graph
    x = _x(nodes, 5, dtype)
    layer = LMGConv(5, 6, coefficients=ACM(identity=identity), add_self_loops=loops, bias=False).to(dtype)
    edges = Graph.from_edge_index(edge_index, nodes, add_self_loops=loops)
    low = torch.zeros(nodes, nodes, dtype=dtype)
    low.index_put_((edges.dst, edges.src), torch.ones(edges.num_edges, dtype=dtype), accumulate=True)
    scale = edges.in_degree.to(dtype).clamp(min=1).rsqrt() * (edges.in_degree > 0)
    low = scale.view(-1, 1) * low * scale
    eye = torch.eye(nodes, dtype=dtype)
    bank = [low, eye - low, eye][: layer.heads]
    weights = layer.lin.weight.view(layer.heads, 6, 5)
    expected = sum(matrix @ x @ weight.t() for matrix, weight in zip(bank, weights, strict=True))
    torch.testing.assert_close(layer(x, edge_index), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stalk", [1, 2, 3])
def test_sheaf_is_its_dense_transport(graph, dtype, stalk):
    nodes, edge_index = graph
    x = _x(nodes, 5, dtype)
    layer = LMGConv(5, 6, coefficients=Sheaf(5, 6, stalk_dim=stalk), add_self_loops=False, bias=False).to(dtype)
    own, other = layer.coefficients.lin_own.weight, layer.coefficients.lin_other.weight
    features = (x @ layer.lin.weight.t()).view(nodes, stalk, 6 // stalk)
    expected = torch.zeros_like(features)
    for j, i in edge_index.t().tolist():  # edge by edge: F_iᵀ F_j applied to the stalk of the source
        at_i = torch.tanh(own @ x[i] + other @ x[j]).view(stalk, stalk)
        at_j = torch.tanh(own @ x[j] + other @ x[i]).view(stalk, stalk)
        expected[i] += at_i.t() @ at_j @ features[j]
    torch.testing.assert_close(layer(x, edge_index), expected.flatten(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["eq12", "lmgc", "lmgc-sym"])
def test_equation_12_and_the_gate(graph, dtype, name):
    nodes, edge_index = graph
    x = _x(nodes, 5, dtype)
    layer = LMGConv(5, 6, heads=3, coefficients=name, add_self_loops=False, bias=False).to(dtype)
    weights = layer.lin.weight.view(3, 6, 5)
    offset = 0
    if name != "eq12":
        offset = layer.coefficients.offset
        torch.testing.assert_close(torch.tanh(offset), torch.tensor([0.25, -0.25, 0.75], dtype=dtype))
        torch.nn.init.normal_(offset)
    # v_k as the paper has it: 2·K·c long, the part of node i before that of node j
    v = torch.cat([layer.coefficients.att[:3], layer.coefficients.att[3:]], dim=1)
    expected = torch.zeros(nodes, 6, dtype=dtype)
    degree = torch.bincount(edge_index[1], minlength=nodes).to(dtype)
    for j, i in edge_index.t().tolist():
        both = torch.cat([weight @ x[i] for weight in weights] + [weight @ x[j] for weight in weights])
        alpha = torch.tanh(offset + v @ torch.nn.functional.leaky_relu(both, 0.2))
        if name == "lmgc-sym":  # as in gcn_norm, nodes without edges into them pass nothing on
            alpha = alpha / (degree[i] * degree[j]).sqrt() if degree[j] else torch.zeros_like(alpha)
        expected[i] += sum(alpha[k] * weights[k] @ x[j] for k in range(3))
    torch.testing.assert_close(layer(x, edge_index), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gates_that_are_one_on_a_sym_are_gcn(dtype):
    nodes, edge_index = GRAPHS["random"]
    x, weight = _x(nodes, 5, dtype), torch.rand(edge_index.size(1), dtype=dtype)
    layer = LMGConv(5, 6, heads=1, coefficients="lmgc-sym").to(dtype)
    other = LMGConv(5, 6, coefficients="gcn").to(dtype)
    other.lin.weight.data.copy_(layer.lin.weight)
    layer.coefficients.offset.data.fill_(30.0)  # tanh of which is 1
    torch.testing.assert_close(layer(x, edge_index), other(x, edge_index))
    torch.testing.assert_close(layer(x, edge_index, edge_weight=weight), other(x, edge_index, edge_weight=weight))


def test_features_of_edges_are_no_weights_of_a_sym():
    nodes, edge_index = GRAPHS["random"]
    x, attributes = _x(nodes, 5, torch.float32), torch.rand(edge_index.size(1), 1)
    layer = LMGConv(5, 6, heads=1, coefficients="lmgc-sym", edge_dim=1)
    torch.nn.init.zeros_(layer.coefficients.lin_edge.weight)
    torch.testing.assert_close(layer(x, edge_index, attributes), layer(x, edge_index, 2 * attributes))
    torch.nn.init.ones_(layer.coefficients.lin_edge.weight)
    assert not torch.allclose(layer(x, edge_index, attributes), layer(x, edge_index, 2 * attributes))


def test_gin_is_ginconv(graph, dtype):
    layer = GINLayer(5, 6, eps=0.3).to(dtype)
    other = GINConv(torch.nn.Sequential(layer.hidden, torch.nn.ReLU(), layer.last), eps=0.3).to(dtype)
    _check(layer, other, graph, dtype)


def test_gin_learns_eps():
    layer = GINLayer(5, 6, eps=0.3, train_eps=True)
    nodes, edge_index = GRAPHS["random"]
    layer(_x(nodes, 5, torch.float32), edge_index).sum().backward()
    assert layer.eps.grad is not None
    layer.eps.data.fill_(7.0)
    layer.reset_parameters()
    assert float(layer.eps) == pytest.approx(0.3)


def test_acmconv_mixes_the_bank_node_by_node(dtype):
    nodes, edge_index = GRAPHS["random"]
    x = _x(nodes, 5, dtype)
    layer = ACMConv(5, 6).to(dtype)
    parts = [torch.relu(part) for part in layer.bank(x, edge_index).chunk(3, dim=1)]
    score = torch.stack([torch.sigmoid(part @ gate) for part, gate in zip(parts, layer.gate, strict=True)], dim=1)
    weight = torch.softmax(score @ layer.mix / 3, dim=1)
    expected = sum(weight[:, k : k + 1] * part for k, part in enumerate(parts))
    torch.testing.assert_close(layer(x, edge_index), expected)
    testing.assert_node_equivariant(layer, x, edge_index)
    # what makes it no LMGC: it is not linear once its coefficients are fixed, doubling x does more than double it
    assert not torch.allclose(layer(2 * x, edge_index), 2 * layer(x, edge_index))
